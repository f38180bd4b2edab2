// linear: y = x·wᵀ + b and its gradients, three matrix products.
#pragma once

#include "core/cuda/kernels/product.h"
#include "core/kernels.h"

namespace copylab::cuda {

template <class T>
void linear(const T* x, const T* w, const T* bias, T* y, int64_t n, int64_t in, int64_t out) {
  if (bias)
    map(
        n * out, CL_LAMBDA(int64_t i) { y[i] = bias[i % out]; });
  multiply<T>({.m = n,
               .n = out,
               .k = in,
               .a = {x, in},
               .b = {w, in, true},
               .c = y,
               .c_row = out,
               .add = bias != nullptr});
}

template <class T>
void linear_backward(const T* x, const T* w, const T* dy, T* dx, T* dw, T* dbias, int64_t n, int64_t in,
                     int64_t out) {
  Workspace workspace;
  const Bf16* rounded = dx && dw ? round_once(dy, n * out, workspace) : nullptr;
  if (dx)
    multiply<T>({.m = n,
                 .n = in,
                 .k = out,
                 .a = {.data = dy, .row = out, .rounded = rounded},
                 .b = {w, in},
                 .c = dx,
                 .c_row = in,
                 .add = true});
  if (dw)
    multiply<T>({.m = out,
                 .n = in,
                 .k = n,
                 .a = {.data = dy, .row = out, .transposed = true, .rounded = rounded},
                 .b = {x, in},
                 .c = dw,
                 .c_row = in,
                 .add = true});
  if (dbias)
    sum_rows(
        n, out, dbias, CL_LAMBDA(int64_t i, int64_t j) { return dy[i * out + j]; });
}

template <class T>
void fill_linear(KernelTable<T>& k) {
  k.linear = linear<T>;
  k.linear_backward = linear_backward<T>;
}

}  // namespace copylab::cuda
