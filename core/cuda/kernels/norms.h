// Normalisation kernels: RMSNorm and LayerNorm over the last dimension, one warp per row.
#pragma once

#include "core/cuda/kernels/map.h"
#include "core/kernels.h"

namespace copylab::cuda {

template <class T>
void rms_norm(const T* x, const T* weight, T* y, T* inv_rms, int64_t n, int64_t dim, T eps) {
  map_rows(
      n, CL_LAMBDA(int64_t i) {
        const T* xi = x + i * dim;
        T square = 0;
        for (int64_t j = lane(); j < dim; j += kWarp) square += xi[j] * xi[j];
        const T inv = T(1) / std::sqrt(warp_sum(square) / T(dim) + eps);
        if (lane() == 0) inv_rms[i] = inv;
        for (int64_t j = lane(); j < dim; j += kWarp)
          y[i * dim + j] = xi[j] * inv * (weight ? weight[j] : T(1));
      });
}

// With x̂ = x / rms and g = dy · weight: dx = (g - x̂ · mean(g · x̂)) / rms, dweight = sum of dy · x̂.
template <class T>
void rms_norm_backward(const T* x, const T* weight, const T* inv_rms, const T* dy, T* dx, T* dweight,
                       int64_t n, int64_t dim) {
  if (dx)
    map_rows(
        n, CL_LAMBDA(int64_t i) {
          const T *xi = x + i * dim, *dyi = dy + i * dim;
          const T inv = inv_rms[i];
          T dot = 0;
          for (int64_t j = lane(); j < dim; j += kWarp) dot += xi[j] * (dyi[j] * (weight ? weight[j] : T(1)));
          const T pull = warp_sum(dot) * inv * inv / T(dim);
          for (int64_t j = lane(); j < dim; j += kWarp)
            dx[i * dim + j] += inv * (dyi[j] * (weight ? weight[j] : T(1)) - xi[j] * pull);
        });
  if (dweight)
    sum_rows(
        n, dim, dweight,
        CL_LAMBDA(int64_t i, int64_t j) { return dy[i * dim + j] * (x[i * dim + j] * inv_rms[i]); });
}

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, T* y, T* mean, T* inv_std, int64_t n, int64_t dim,
                T eps) {
  map_rows(
      n, CL_LAMBDA(int64_t i) {
        const T* xi = x + i * dim;
        T sum = 0, square = 0;
        for (int64_t j = lane(); j < dim; j += kWarp) sum += xi[j];
        const T m = warp_sum(sum) / T(dim);
        // Two passes: the one-pass variance cancels where the mean is large.
        for (int64_t j = lane(); j < dim; j += kWarp) square += (xi[j] - m) * (xi[j] - m);
        const T inv = T(1) / std::sqrt(warp_sum(square) / T(dim) + eps);
        if (lane() == 0) {
          mean[i] = m;
          inv_std[i] = inv;
        }
        for (int64_t j = lane(); j < dim; j += kWarp)
          y[i * dim + j] = (xi[j] - m) * inv * (weight ? weight[j] : T(1)) + (bias ? bias[j] : T(0));
      });
}

// With x̂ = (x - mean) / std and g = dy · weight: dx = (g - mean(g) - x̂ · mean(g · x̂)) / std,
// dweight = sum of dy · x̂, dbias = sum of dy.
template <class T>
void layer_norm_backward(const T* x, const T* weight, const T* mean, const T* inv_std, const T* dy, T* dx,
                         T* dweight, T* dbias, int64_t n, int64_t dim) {
  if (dx)
    map_rows(
        n, CL_LAMBDA(int64_t i) {
          const T *xi = x + i * dim, *dyi = dy + i * dim;
          const T m = mean[i], inv = inv_std[i];
          T sum = 0, dot = 0;
          for (int64_t j = lane(); j < dim; j += kWarp) {
            const T g = dyi[j] * (weight ? weight[j] : T(1));
            sum += g;
            dot += (xi[j] - m) * g;
          }
          const T mean_g = warp_sum(sum) / T(dim), pull = warp_sum(dot) * inv * inv / T(dim);
          for (int64_t j = lane(); j < dim; j += kWarp)
            dx[i * dim + j] += inv * (dyi[j] * (weight ? weight[j] : T(1)) - mean_g - (xi[j] - m) * pull);
        });
  if (dweight)
    sum_rows(
        n, dim, dweight, CL_LAMBDA(int64_t i, int64_t j) {
          return dy[i * dim + j] * ((x[i * dim + j] - mean[i]) * inv_std[i]);
        });
  if (dbias)
    sum_rows(
        n, dim, dbias, CL_LAMBDA(int64_t i, int64_t j) { return dy[i * dim + j]; });
}

template <class T>
void fill_norms(KernelTable<T>& k) {
  k.rms_norm = rms_norm<T>;
  k.rms_norm_backward = rms_norm_backward<T>;
  k.layer_norm = layer_norm<T>;
  k.layer_norm_backward = layer_norm_backward<T>;
}

}  // namespace copylab::cuda
