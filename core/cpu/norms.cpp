// Normalisation kernels: RMSNorm and LayerNorm over the last dimension, forward and backward.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "core/cpu/kernels.h"
#include "core/cpu/lanes.h"
#include "core/cpu/parallel.h"

namespace copylab::cpu {
namespace {

using simd::Vec;

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
      Vec<T> square{};
      for_lanes<T>(0, dim, [&](auto at) { square += at.load(xi) * at.load(xi); });
      const T inv = T(1) / std::sqrt(simd::sum(square) / T(dim) + eps);
      inv_rms[i] = inv;
      if (weight)
        for_lanes<T>(0, dim, [=](auto at) { at.store(yi, at.load(xi) * inv * at.load(weight)); });
      else
        for_lanes<T>(0, dim, [=](auto at) { at.store(yi, at.load(xi) * inv); });
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
        Vec<T> dot{};
        for_lanes<T>(0, dim, [&](auto at) { dot += at.load(xi) * (at.load(dyi) * at.load(w)); });
        const T pull = simd::sum(dot) * inv * inv / T(dim);
        for_lanes<T>(0, dim, [=, dxi = dx + i * dim](auto at) {
          at.add(dxi, inv * (at.load(dyi) * at.load(w) - at.load(xi) * pull));
        });
      }
      if (dweight) for_lanes<T>(0, dim, [=](auto at) { at.add(dw, at.load(dyi) * (at.load(xi) * inv)); });
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
      Vec<T> total{};
      for_lanes<T>(0, dim, [&](auto at) { total += at.load(xi); });
      const T m = simd::sum(total) / T(dim);
      // Two passes: the one-pass variance cancels where the mean is large.
      Vec<T> square{};
      for_lanes<T>(0, dim, [&](auto at) {
        const Vec<T> d = at.load(xi, m) - m;
        square += d * d;
      });
      const T inv = T(1) / std::sqrt(simd::sum(square) / T(dim) + eps);
      mean[i] = m;
      inv_std[i] = inv;
      for_lanes<T>(0, dim, [=](auto at) {
        Vec<T> value = (at.load(xi) - m) * inv;
        if (weight) value *= at.load(weight);
        if (bias) value += at.load(bias);
        at.store(yi, value);
      });
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
        Vec<T> total{}, dot{};
        for_lanes<T>(0, dim, [&](auto at) {
          const Vec<T> g = at.load(dyi) * at.load(w);
          total += g;
          dot += (at.load(xi) - m) * g;
        });
        const T mean_g = simd::sum(total) / T(dim), pull = simd::sum(dot) * inv * inv / T(dim);
        for_lanes<T>(0, dim, [=, dxi = dx + i * dim](auto at) {
          at.add(dxi, inv * (at.load(dyi) * at.load(w) - mean_g - (at.load(xi) - m) * pull));
        });
      }
      if (dweight)
        for_lanes<T>(0, dim, [=](auto at) { at.add(dw, at.load(dyi) * ((at.load(xi) - m) * inv)); });
      if (dbias) for_lanes<T>(0, dim, [=](auto at) { at.add(db, at.load(dyi)); });
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
