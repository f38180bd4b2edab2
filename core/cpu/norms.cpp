// Normalisation kernels: RMSNorm and LayerNorm over the last dimension, forward and backward.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"

namespace copylab::cpu {
namespace {

// Sum of term(j) for j in 0..n-1, in lanes that fill a vector register; the order depends on n alone.
template <class T, class F>
T sum(int64_t n, F&& term) {
  constexpr int kLanes = 64 / sizeof(T);
  T lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += term(j + l);
  for (int l = 0; j + l < n; ++l) lanes[l] += term(j + l);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

// Rows are cut into blocks by shape alone: enough to share out, few enough to join cheaply.
int64_t rows_per_block(int64_t n) {
  return std::max<int64_t>(32, (n + 63) / 64);
}

// f(begin, end, partial) over blocks of rows, where `partial` (totals, dim) is the block's share of gradients
// (dim) that sum over rows; then each total that is not null gets the partials in order.
template <class T, class F>
void sum_over_rows(int64_t n, int64_t dim, std::initializer_list<T*> totals, F&& f) {
  const int64_t block = rows_per_block(n), blocks = (n + block - 1) / block;
  const int64_t width = static_cast<int64_t>(totals.size()) * dim;
  std::vector<T> partials(blocks * width, T(0));
  parallel_for(blocks, 4 * n * dim, [&](int64_t task) {
    f(task * block, std::min(n, (task + 1) * block), partials.data() + task * width);
  });
  const T* partial = partials.data();
  for (int64_t task = 0; task < blocks; ++task)
    for (T* total : totals) {
      for (int64_t j = 0; total && j < dim; ++j) total[j] += partial[j];
      partial += dim;
    }
}

template <class F>
void for_row_blocks(int64_t n, int64_t dim, F&& f) {
  const int64_t block = rows_per_block(n);
  parallel_for((n + block - 1) / block, 2 * n * dim,
               [&](int64_t task) { f(task * block, std::min(n, (task + 1) * block)); });
}

template <class T>
void rms_norm(const T* x, const T* weight, T* y, T* inv_rms, int64_t n, int64_t dim, T eps) {
  for_row_blocks(n, dim, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* xi = x + i * dim;
      T* yi = y + i * dim;
      const T inv = T(1) / std::sqrt(sum<T>(dim, [=](int64_t j) { return xi[j] * xi[j]; }) / T(dim) + eps);
      inv_rms[i] = inv;
      if (weight)
        for (int64_t j = 0; j < dim; ++j) yi[j] = xi[j] * inv * weight[j];
      else
        for (int64_t j = 0; j < dim; ++j) yi[j] = xi[j] * inv;
    }
  });
}

// With x̂ = x / rms and g = dy · weight: dx = (g - x̂ · mean(g · x̂)) / rms, dweight = sum of dy · x̂.
template <class T>
void rms_norm_backward(const T* x, const T* weight, const T* inv_rms, const T* dy, T* dx, T* dweight,
                       int64_t n, int64_t dim) {
  const std::vector<T> ones(weight ? 0 : dim, T(1));
  const T* w = weight ? weight : ones.data();
  sum_over_rows<T>(n, dim, {dweight}, [&](int64_t begin, int64_t end, T* dw) {
    for (int64_t i = begin; i < end; ++i) {
      const T *xi = x + i * dim, *dyi = dy + i * dim;
      const T inv = inv_rms[i];
      if (dx) {
        const T dot = sum<T>(dim, [=](int64_t j) { return xi[j] * (dyi[j] * w[j]); });
        const T pull = dot * inv * inv / T(dim);
        T* dxi = dx + i * dim;
        for (int64_t j = 0; j < dim; ++j) dxi[j] += inv * (dyi[j] * w[j] - xi[j] * pull);
      }
      if (dweight)
        for (int64_t j = 0; j < dim; ++j) dw[j] += dyi[j] * (xi[j] * inv);
    }
  });
}

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, T* y, T* mean, T* inv_std, int64_t n, int64_t dim,
                T eps) {
  for_row_blocks(n, dim, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* xi = x + i * dim;
      T* yi = y + i * dim;
      const T m = sum<T>(dim, [=](int64_t j) { return xi[j]; }) / T(dim);
      // Two passes: the one-pass variance cancels where the mean is large.
      const T variance = sum<T>(dim, [=](int64_t j) { return (xi[j] - m) * (xi[j] - m); }) / T(dim);
      const T inv = T(1) / std::sqrt(variance + eps);
      mean[i] = m;
      inv_std[i] = inv;
      for (int64_t j = 0; j < dim; ++j) yi[j] = (xi[j] - m) * inv;
      if (weight)
        for (int64_t j = 0; j < dim; ++j) yi[j] *= weight[j];
      if (bias)
        for (int64_t j = 0; j < dim; ++j) yi[j] += bias[j];
    }
  });
}

// With x̂ = (x - mean) / std and g = dy · weight: dx = (g - mean(g) - x̂ · mean(g · x̂)) / std,
// dweight = sum of dy · x̂, dbias = sum of dy.
template <class T>
void layer_norm_backward(const T* x, const T* weight, const T* mean, const T* inv_std, const T* dy, T* dx,
                         T* dweight, T* dbias, int64_t n, int64_t dim) {
  const std::vector<T> ones(weight ? 0 : dim, T(1));
  const T* w = weight ? weight : ones.data();
  sum_over_rows<T>(n, dim, {dweight, dbias}, [&](int64_t begin, int64_t end, T* partial) {
    T *dw = partial, *db = partial + dim;
    for (int64_t i = begin; i < end; ++i) {
      const T *xi = x + i * dim, *dyi = dy + i * dim;
      const T m = mean[i], inv = inv_std[i];
      if (dx) {
        const T mean_g = sum<T>(dim, [=](int64_t j) { return dyi[j] * w[j]; }) / T(dim);
        const T dot = sum<T>(dim, [=](int64_t j) { return (xi[j] - m) * (dyi[j] * w[j]); });
        const T pull = dot * inv * inv / T(dim);
        T* dxi = dx + i * dim;
        for (int64_t j = 0; j < dim; ++j) dxi[j] += inv * (dyi[j] * w[j] - mean_g - (xi[j] - m) * pull);
      }
      if (dweight)
        for (int64_t j = 0; j < dim; ++j) dw[j] += dyi[j] * ((xi[j] - m) * inv);
      if (dbias)
        for (int64_t j = 0; j < dim; ++j) db[j] += dyi[j];
    }
  });
}

}  // namespace

template <class T>
void fill_norms(KernelTable<T>& k) {
  k.rms_norm = rms_norm<T>;
  k.rms_norm_backward = rms_norm_backward<T>;
  k.layer_norm = layer_norm<T>;
  k.layer_norm_backward = layer_norm_backward<T>;
}
template void fill_norms(KernelTable<float>&);
template void fill_norms(KernelTable<double>&);

}  // namespace copylab::cpu
