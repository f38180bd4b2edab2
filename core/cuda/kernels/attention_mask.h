// Who sees whom in causal self-attention.
#pragma once

#include "core/cuda/kernels/math.h"
#include "core/kernels.h"

namespace copylab::cuda {

// May row t see key j?
template <class T>
CL_DEVICE bool sees(const AttentionArgs<T>& a, int64_t b, int64_t t, int64_t j) {
  if (t >= a.length || j > t || (a.window > 0 && t - j >= a.window)) return false;
  const int64_t first = b * a.length;
  if (a.marked && !(a.marked[first + t] && a.marked[first + j])) return false;
  if (a.segment && a.segment[first + t] != a.segment[first + j]) return false;
  return !a.allowed || a.allowed[(first + t) * a.length + j];
}
template <class T>
CL_DEVICE T masked(const AttentionArgs<T>& a, int64_t b, int64_t t, int64_t j, T score) {
  if (!sees(a, b, t, j)) return -kInf<T>;
  return a.bias ? score + a.bias[t * a.length + j] : score;
}

// The first tile of `size` keys that any row from t0 on sees.
template <class T>
CL_DEVICE int64_t first_tile(const AttentionArgs<T>& a, int64_t t0, int64_t size) {
  return a.window > 0 ? maximum<int64_t>(0, t0 - a.window + 1) / size * size : 0;
}

}  // namespace copylab::cuda
