// Functions of one and two numbers for kernels, accurate at both ends as those of the CPU backend.
#pragma once

#include <cmath>
#include <limits>

#include "core/cuda/device.h"

namespace copylab::cuda {

template <class T>
constexpr T kInf = std::numeric_limits<T>::infinity();

template <class T>
CL_DEVICE T maximum(T a, T b) {
  return a > b ? a : b;
}
template <class T>
CL_DEVICE T minimum(T a, T b) {
  return a < b ? a : b;
}

template <class T>
CL_DEVICE T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
// sigmoid'(x) = sigmoid(x) · sigmoid(-x), without the cancellation of y · (1 - y).
template <class T>
CL_DEVICE T sigmoid_slope(T x) {
  const T e = std::exp(-std::fabs(x));
  return e / ((T(1) + e) * (T(1) + e));
}
// log(1 + e^x).
template <class T>
CL_DEVICE T softplus(T x) {
  return maximum(x, T(0)) + std::log1p(std::exp(-std::fabs(x)));
}
template <class T>
CL_DEVICE T silu(T x) {
  return x * sigmoid(x);
}
template <class T>
CL_DEVICE T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}

// log(e^a + e^b); -inf stands for log 0, on either side or on both.
template <class T>
CL_DEVICE T log_add_exp(T a, T b) {
  const T high = a > b ? a : b, low = a > b ? b : a;
  return high == -kInf<T> || high == kInf<T> ? high : high + std::log1p(std::exp(low - high));
}
// d log_add_exp / da = sigmoid(a - b), the share of a in the sum; log 0 has no share.
template <class T>
CL_DEVICE T share(T a, T b) {
  return a == -kInf<T> ? T(0) : sigmoid(a - b);
}

}  // namespace copylab::cuda
