// Reductions: weighted sums, norms, finiteness, and projection of gradients on a subspace.
#pragma once

#include "core/cuda/kernels/index.h"
#include "core/cuda/kernels/map.h"
#include "core/cuda/kernels/product.h"
#include "core/kernels.h"

namespace copylab::cuda {

template <class T>
void weighted_sum(const T* x, const T* w, T* out, int64_t n) {
  total(
      n, CL_LAMBDA(int64_t i) { return double(x[i]) * (w ? double(w[i]) : 1.0); },
      CL_LAMBDA(double sum) { *out = static_cast<T>(sum); });
}

// The sum of term(i), on the host.
template <class F>
double total_on_host(int64_t n, F term) {
  Workspace workspace;
  double* sum = workspace.take<double>(1);
  total(
      n, term, CL_LAMBDA(double x) { *sum = x; });
  double out = 0;
  read(&out, sum, sizeof(out));
  return out;
}

template <class T>
double sum_of_squares(const T* x, int64_t n) {
  return total_on_host(
      n, CL_LAMBDA(int64_t i) { return double(x[i]) * double(x[i]); });
}

template <class T>
bool all_finite(const T* x, int64_t n, bool allow_minus_inf) {
  const T high = std::numeric_limits<T>::max(), low = allow_minus_inf ? -kInf<T> : -high;
  const auto is_bad = CL_LAMBDA(int64_t i) {
    return x[i] >= low && x[i] <= high ? 0.0 : 1.0;
  };
  return total_on_host(n, is_bad) == 0;
}

template <class T>
void project_rows(const T* g, const T* basis, T* dx, int64_t n, int64_t dim, int64_t rank, bool match_rms) {
  Workspace workspace;
  T* coefficients = workspace.take<T>(n * rank);
  T* kept = workspace.take<T>(n * dim);
  double* squares = workspace.take<double>(2);
  multiply<T>(
      {.m = n, .n = rank, .k = dim, .a = {g, dim}, .b = {basis, rank}, .c = coefficients, .c_row = rank});
  multiply<T>({.m = n,
               .n = dim,
               .k = rank,
               .a = {coefficients, rank},
               .b = {basis, rank, true},
               .c = kept,
               .c_row = dim});
  if (match_rms) {
    total(
        n * dim, CL_LAMBDA(int64_t i) { return double(g[i]) * double(g[i]); },
        CL_LAMBDA(double sum) { squares[0] = sum; });
    total(
        n * dim, CL_LAMBDA(int64_t i) { return double(kept[i]) * double(kept[i]); },
        CL_LAMBDA(double sum) { squares[1] = sum; });
  }
  map(
      n * dim, CL_LAMBDA(int64_t i) {
        T scale = 1;
        if (match_rms) scale = squares[1] > 0 ? static_cast<T>(std::sqrt(squares[0] / squares[1])) : T(0);
        dx[i] += scale * kept[i];
      });
}

template <class T>
void fill_reduce(KernelTable<T>& k) {
  k.weighted_sum = weighted_sum<T>;
  k.sum_of_squares = sum_of_squares<T>;
  k.all_finite = all_finite<T>;
  k.project_rows = project_rows<T>;
}

}  // namespace copylab::cuda
