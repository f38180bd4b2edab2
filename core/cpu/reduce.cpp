// Reductions on the CPU: weighted sums, norms, finiteness, and projection of gradients on a subspace.
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/gemm.h"
#include "core/cpu/kernels.h"

namespace copylab::cpu {
namespace {

constexpr int64_t kChunk = 1 << 14;

// Sum over chunks of `of(begin, end)`, each computed by one thread, joined in order.
template <class F>
double chunked_sum(int64_t n, F&& of) {
  std::vector<double> part((n + kChunk - 1) / kChunk);
  parallel_chunks(n, kChunk, [&](int64_t begin, int64_t end) { part[begin / kChunk] = of(begin, end); });
  double total = 0;
  for (double x : part) total += x;
  return total;
}

// Eight partial sums, so that the loop is not bound by the latency of one addition; joined in order.
template <class F>
double lane_sum(int64_t begin, int64_t end, F&& term) {
  constexpr int kLanes = 8;
  double lane[kLanes] = {};
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lane[j] += term(i + j);
  }
  for (int j = 0; i < end; ++i, ++j) lane[j] += term(i);
  double total = 0;
  for (double x : lane) total += x;
  return total;
}

template <class T>
void weighted_sum(const T* x, const T* w, T* out, int64_t n) {
  *out = static_cast<T>(chunked_sum(n, [&](int64_t begin, int64_t end) {
    if (!w) return lane_sum(begin, end, [&](int64_t i) { return double(x[i]); });
    return lane_sum(begin, end, [&](int64_t i) { return double(x[i]) * double(w[i]); });
  }));
}

template <class T>
double sum_of_squares(const T* x, int64_t n) {
  return chunked_sum(n, [&](int64_t begin, int64_t end) {
    return lane_sum(begin, end, [&](int64_t i) { return double(x[i]) * double(x[i]); });
  });
}

template <class T>
bool all_finite(const T* x, int64_t n, bool allow_minus_inf) {
  constexpr T kMax = std::numeric_limits<T>::max();
  const T low = allow_minus_inf ? -std::numeric_limits<T>::infinity() : -kMax;
  std::atomic<bool> finite = true;
  parallel_chunks(n, kChunk, [&](int64_t begin, int64_t end) {
    int bad = 0;  // no early exit: the loop is vectorised, and bad values are rare
    for (int64_t i = begin; i < end; ++i) bad |= !(x[i] >= low && x[i] <= kMax);
    if (bad) finite = false;
  });
  return finite;
}

template <class T>
void project_rows(const T* g, const T* basis, T* dx, int64_t n, int64_t dim, int64_t rank, bool match_rms) {
  std::vector<T> coefficients(n * rank), kept(n * dim);
  gemm::multiply<T>(n, rank, dim, {g, dim, 1}, {basis, rank, 1}, coefficients.data(), rank, false);
  gemm::multiply<T>(n, dim, rank, {coefficients.data(), rank, 1}, {basis, 1, rank}, kept.data(), dim, false);
  T scale = 1;
  if (match_rms) {
    const double before = sum_of_squares(g, n * dim), after = sum_of_squares(kept.data(), n * dim);
    scale = after > 0 ? static_cast<T>(std::sqrt(before / after)) : T(0);
  }
  parallel_chunks(n * dim, kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) dx[i] += scale * kept[i];
  });
}

}  // namespace

template <class T>
void fill_reduce(KernelTable<T>& k) {
  k.weighted_sum = weighted_sum<T>;
  k.sum_of_squares = sum_of_squares<T>;
  k.all_finite = all_finite<T>;
  k.project_rows = project_rows<T>;
}
template void fill_reduce(KernelTable<float>&);
template void fill_reduce(KernelTable<double>&);

}  // namespace copylab::cpu
