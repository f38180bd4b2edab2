// Optimizer steps: one pass over parameters, gradients and state that also clears the gradients.
#pragma once

#include "core/cuda/kernels/map.h"
#include "core/kernels.h"

namespace copylab::cuda {

CL_DEVICE bool decays(const DecayRanges& ranges, int64_t i) {
  int64_t low = 0, high = ranges.count;  // the first range that ends behind i is in low..high
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (ranges.ends[middle] > i)
      high = middle;
    else
      low = middle + 1;
  }
  return (low % 2 == 0) == ranges.first;
}

// Loshchilov & Hutter 2019, with the order of operations of PyTorch's AdamW: decay first, then
// p -= lr/bias1 · m / (sqrt(v)/sqrt(bias2) + eps).
template <class T>
void adamw(const AdamWArgs<T>& args) {
  const AdamWArgs<T> a = args;
  const T keep = T(1) - a.lr * a.weight_decay, step = a.lr / a.bias1;
  const T inv_sqrt_bias2 = T(1) / std::sqrt(a.bias2);
  map(
      a.n, CL_LAMBDA(int64_t i) {
        const T g = a.grad[i] * a.grad_scale;
        const T m = a.m[i] * a.beta1 + g * (T(1) - a.beta1);
        const T v = a.v[i] * a.beta2 + g * g * (T(1) - a.beta2);
        a.m[i] = m;
        a.v[i] = v;
        a.param[i] = a.param[i] * (decays(a.ranges, i) ? keep : T(1)) -
                     m / (std::sqrt(v) * inv_sqrt_bias2 + a.eps) * step;
        if (a.zero_grad) a.grad[i] = 0;
      });
}

template <class T>
void sgd(T* param, T* grad, int64_t n, T lr, T weight_decay, T grad_scale, bool zero_grad,
         const DecayRanges& decay_ranges) {
  const DecayRanges ranges = decay_ranges;
  const T keep = T(1) - lr * weight_decay, step = lr * grad_scale;
  map(
      n, CL_LAMBDA(int64_t i) {
        param[i] = param[i] * (decays(ranges, i) ? keep : T(1)) - grad[i] * step;
        if (zero_grad) grad[i] = 0;
      });
}

template <class T>
void fill_optim(KernelTable<T>& k) {
  k.adamw = adamw<T>;
  k.sgd = sgd<T>;
}

}  // namespace copylab::cuda
