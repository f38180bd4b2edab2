// The shapes that most kernels have: a function of each element, of each row, and sums in a fixed order.
#pragma once

#include <algorithm>

#include "core/cuda/device.h"
#include "core/cuda/kernels/math.h"
#include "core/cuda/machine.h"

namespace copylab::cuda {

constexpr int kThreads = 128;  // of a block where nothing asks for another number
constexpr int kWarps = kThreads / kWarp;

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

template <class F>
CL_KERNEL map_kernel(int64_t n, F f) {
  const int64_t i = block() * threads() + thread();
  if (i < n) f(i);
}
// f(i) for i = 0..n-1.
template <class F>
void map(int64_t n, F f) {
  launch({ceil_div(n, kThreads), kThreads}, map_kernel<F>, n, f);
}

template <class F>
CL_KERNEL rows_kernel(int64_t n, F f) {
  const int64_t row = block() * kWarps + warp();
  if (row < n) f(row);
}
// f(row) on all lanes of one warp, for each of n rows.
template <class F>
void map_rows(int64_t n, F f) {
  launch({ceil_div(n, kWarps), kThreads}, rows_kernel<F>, n, f);
}

// Over the lanes of a warp; every lane gets the result.
template <class T>
CL_DEVICE T warp_sum(T x) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}
template <class T>
CL_DEVICE T warp_max(T x) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x = maximum(x, shuffle_xor(x, mask));
  return x;
}
template <class T>
CL_DEVICE T warp_min(T x) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x = minimum(x, shuffle_xor(x, mask));
  return x;
}

// Over the threads of a block; every thread gets the result. `scratch` (kWarp) is shared.
template <class T>
CL_DEVICE T block_sum(T x, T* scratch) {
  x = warp_sum(x);
  if (lane() == 0) scratch[warp()] = x;
  sync_block();
  x = warp_sum(lane() < threads() / kWarp ? scratch[lane()] : T(0));
  sync_block();  // the next call writes to scratch
  return x;
}

// ---- sums over rows
// ------------------------------------------------------------------------------------------

template <class T, class F>
CL_KERNEL partial_rows_kernel(int64_t n, int64_t dim, int64_t chunk, F term, T* partial) {
  const int64_t tiles = (dim + threads() - 1) / threads();
  const int64_t part = block() / tiles, j = block() % tiles * threads() + thread();
  if (j >= dim) return;
  const int64_t end = minimum(n, (part + 1) * chunk);
  T sum = 0;
  for (int64_t i = part * chunk; i < end; ++i) sum += term(i, j);
  partial[part * dim + j] = sum;
}
// total[j] += sum over i = 0..n-1 of term(i, j), j = 0..dim-1: in chunks of rows that are joined in order.
template <class T, class F>
void sum_rows(int64_t n, int64_t dim, T* total, F term) {
  if (n == 0) return;
  const int64_t chunk = std::max<int64_t>(32, ceil_div(n, 256)), parts = ceil_div(n, chunk);
  Workspace workspace;
  T* partial = workspace.take<T>(parts * dim);
  launch({parts * ceil_div(dim, kThreads), kThreads}, partial_rows_kernel<T, F>, n, dim, chunk, term,
         partial);
  map(
      dim, CL_LAMBDA(int64_t j) {
        T sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += partial[part * dim + j];
        total[j] += sum;
      });
}

// ---- sums over everything
// ------------------------------------------------------------------------------------

constexpr int64_t kSumChunk = 1 << 12;  // elements of one block

template <class F>
CL_KERNEL partial_sum_kernel(int64_t n, F term, double* partial) {
  CL_SHARED(double, scratch, kWarp);
  const int64_t end = minimum(n, (block() + 1) * kSumChunk);
  double sum = 0;
  for (int64_t i = block() * kSumChunk + thread(); i < end; i += threads()) sum += term(i);
  sum = block_sum(sum, scratch);
  if (thread() == 0) partial[block()] = sum;
}
template <class F>
CL_KERNEL join_kernel(int64_t parts, const double* partial, F use) {
  CL_SHARED(double, scratch, kWarp);
  double sum = 0;
  for (int64_t i = thread(); i < parts; i += threads()) sum += partial[i];
  sum = block_sum(sum, scratch);
  if (thread() == 0) use(sum);
}
// use(sum over i = 0..n-1 of term(i)), in double, by one thread on the device. The order is fixed by n.
template <class F, class G>
void total(int64_t n, F term, G use) {
  const int64_t parts = ceil_div(n, kSumChunk);
  Workspace workspace;
  double* partial = workspace.take<double>(parts);
  launch({parts, kThreads}, partial_sum_kernel<F>, n, term, partial);
  launch({1, kThreads}, join_kernel<G>, parts, partial, use);
}

}  // namespace copylab::cuda
