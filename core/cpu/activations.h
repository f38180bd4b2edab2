// Activation functions and their derivatives on SIMD vectors, shared by the elementwise and recurrent
// kernels.
#pragma once

#include "core/cpu/simd.h"

namespace copylab::cpu::simd {

template <class T>
inline Vec<T> abs(Vec<T> x) {
  return max(x, -x);
}

// 1 / (1 + e^-x), with full relative precision for negative x down to where e^-x overflows.
template <class T>
inline Vec<T> sigmoid(Vec<T> x) {
  return T(1) / (T(1) + exp(-x));
}
// sigmoid'(x) = sigmoid(x) · sigmoid(-x), without the cancellation of y · (1 - y).
template <class T>
inline Vec<T> sigmoid_slope(Vec<T> x) {
  const Vec<T> e = exp(-abs<T>(x));
  return e / ((T(1) + e) * (T(1) + e));
}

// tanh|x| = -m / (2 + m) with m = e^(-2|x|) - 1; near 0, m comes without cancellation from Kahan's
// (u - 1) · y / log u at u = e^y, where the errors of u - 1 and log u cancel.
template <class T>
inline Vec<T> tanh(Vec<T> x) {
  const Vec<T> y = T(-2) * abs<T>(x);
  const Vec<T> u = exp(y);
  const Vec<T> near = u == broadcast(T(1)) ? y : (u - T(1)) * y / log(u);
  const Vec<T> m = y > broadcast(T(-1)) ? near : u - T(1);
  const Vec<T> magnitude = -m / (T(2) + m);
  return x < Vec<T>{} ? -magnitude : magnitude;
}

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|): accurate at both ends.
template <class T>
inline Vec<T> softplus(Vec<T> x) {
  return max(Vec<T>{}, x) + log1p(exp(-abs<T>(x)));
}

// 1 - e^x for x <= 0 to full relative precision: x / log u corrects the rounding of u = e^x near 1 (Kahan).
template <class T>
inline Vec<T> one_minus_exp(Vec<T> x) {
  const Vec<T> u = exp(x), difference = T(1) - u;
  const Vec<T> near = difference == Vec<T>{} ? -x : difference * (x / log(u));
  return x < broadcast(T(-1)) ? difference : near;
}

template <class T>
inline Vec<T> silu(Vec<T> x) {
  return x * sigmoid<T>(x);
}
template <class T>
inline Vec<T> silu_slope(Vec<T> x) {
  const Vec<T> s = sigmoid<T>(x);
  return s * (T(1) + x * (T(1) - s));
}

}  // namespace copylab::cpu::simd
