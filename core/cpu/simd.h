// Vectors of float and double at the widest size that this build may use, with exp, log and log1p.
//
// Vec<float> and Vec<double> are compiler vectors: + - * / and comparisons work per lane, and a comparison
// gives an integer vector for `mask ? a : b`. Results do not depend on the machine beyond the lane count and
// whether a·b + c is fused.
#pragma once

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace copylab::cpu::simd {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

typedef float F32 __attribute__((vector_size(kBytes)));
typedef double F64 __attribute__((vector_size(kBytes)));
typedef int32_t I32 __attribute__((vector_size(kBytes)));
typedef int64_t I64 __attribute__((vector_size(kBytes)));

template <class T>
struct Types;
template <>
struct Types<float> {
  using Vec = F32;
  using Int = I32;
  typedef float Unaligned __attribute__((vector_size(kBytes), aligned(alignof(float)), may_alias));
};
template <>
struct Types<double> {
  using Vec = F64;
  using Int = I64;
  typedef double Unaligned __attribute__((vector_size(kBytes), aligned(alignof(double)), may_alias));
};

template <class T>
using Vec = typename Types<T>::Vec;
template <class T>
using IntVec = typename Types<T>::Int;  // lanes as wide as T
template <class T>
constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));

template <class T>
inline Vec<T> broadcast(T x) {
  return x - Vec<T>{};  // not x + 0, which would turn -0 into 0
}
template <class T>
inline Vec<T> load(const T* p) {
  return *reinterpret_cast<const typename Types<T>::Unaligned*>(p);
}
template <class T>
inline void store(T* p, Vec<T> x) {
  *reinterpret_cast<typename Types<T>::Unaligned*>(p) = x;
}
// The first `count` lanes from memory, the others `fill`.
template <class T>
inline Vec<T> load_partial(const T* p, int64_t count, T fill = T(0)) {
  Vec<T> x = broadcast(fill);
  std::memcpy(&x, p, sizeof(T) * count);
  return x;
}
template <class T>
inline void store_partial(T* p, Vec<T> x, int64_t count) {
  std::memcpy(p, &x, sizeof(T) * count);
}

// Per lane a > b ? a : b; so b where either is NaN. (maskz with a full mask is the plain instruction; the
// plain intrinsics trip -Wmaybe-uninitialized in GCC 12.)
inline F32 max(F32 a, F32 b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, a, b);
#elif defined(__AVX__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
inline F64 max(F64 a, F64 b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_pd(0xff, a, b);
#elif defined(__AVX__)
  return _mm256_max_pd(a, b);
#else
  return a > b ? a : b;
#endif
}
// Per lane a < b ? a : b; so b where either is NaN.
inline F32 min(F32 a, F32 b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, a, b);
#elif defined(__AVX__)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}
inline F64 min(F64 a, F64 b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_pd(0xff, a, b);
#elif defined(__AVX__)
  return _mm256_min_pd(a, b);
#else
  return a < b ? a : b;
#endif
}

inline F32 sqrt(F32 x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, x);
#elif defined(__AVX__)
  return _mm256_sqrt_ps(x);
#else
  for (int i = 0; i < kLanes<float>; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
inline F64 sqrt(F64 x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_pd(0xff, x);
#elif defined(__AVX__)
  return _mm256_sqrt_pd(x);
#else
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_sqrt(x[i]);
  return x;
#endif
}

namespace detail {
template <int kDistance, class V, size_t... kLane>
inline V swap_lanes(V x, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(x, x, (kLane ^ kDistance)...);
}
// Folds the lanes with `op`, halves first: a fixed order.
template <int kHalf, class V, class Op>
inline V fold(V x, Op op) {
  if constexpr (kHalf == 0) {
    return x;
  } else {
    constexpr size_t kCount = sizeof(V) / sizeof(x[0]);
    return fold<kHalf / 2>(op(x, swap_lanes<kHalf>(x, std::make_index_sequence<kCount>{})), op);
  }
}
// One step of a transposition: of each pair of rows kDistance apart, the off-diagonal lanes change places.
template <int kDistance, class V, size_t... kLane>
inline void exchange(V* row, std::index_sequence<kLane...>) {
  constexpr size_t kCount = sizeof...(kLane), kBit = kDistance;
#pragma GCC unroll 16
  for (size_t i = 0; i < kCount; ++i) {
    if (i & kBit) continue;
    const V a = row[i], b = row[i + kBit];
    row[i] = __builtin_shufflevector(a, b, (kLane & kBit ? kCount + kLane - kBit : kLane)...);
    row[i + kBit] = __builtin_shufflevector(a, b, (kLane & kBit ? kCount + kLane : kLane + kBit)...);
  }
}
template <int kDistance, class V>
inline void transpose(V* row) {
  exchange<kDistance>(row, std::make_index_sequence<sizeof(V) / sizeof(row[0][0])>{});
  if constexpr (kDistance > 1) transpose<kDistance / 2>(row);
}
}  // namespace detail

// Transposes the square of kLanes vectors.
template <class T>
inline void transpose(Vec<T> (&rows)[kLanes<T>]) {
  detail::transpose<kLanes<T> / 2>(&rows[0]);
}

// Sum and maximum of the lanes, in a fixed order.
inline float sum(F32 x) {
  return detail::fold<kLanes<float> / 2>(x, [](F32 a, F32 b) { return a + b; })[0];
}
inline double sum(F64 x) {
  return detail::fold<kLanes<double> / 2>(x, [](F64 a, F64 b) { return a + b; })[0];
}
inline float max_lane(F32 x) {
  return detail::fold<kLanes<float> / 2>(x, [](F32 a, F32 b) { return max(a, b); })[0];
}
inline double max_lane(F64 x) {
  return detail::fold<kLanes<double> / 2>(x, [](F64 a, F64 b) { return max(a, b); })[0];
}

// e^x. Within 2 units in the last place; 0 below about -87 (float) or -708 (double), so e^-inf = 0 and there
// are no denormal results; inf beyond the largest finite result; NaN stays NaN.
//
// x = n·ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^(n-1) · 2e^r. Adding `magic` rounds to an integer and
// leaves the biased exponent of 2^(n-1) in the low bits, so one shift builds that power. The factor 2 lets
// n reach 128 without overflow of the power itself.
inline F32 exp(F32 x) {
  constexpr float kMagic = 0x1.8p23f + 126.0f;
  x = min(broadcast(89.0f), max(broadcast(-87.34f), x));
  const F32 shifted = x * 1.44269504f + kMagic;
  const F32 n = shifted - kMagic;
  F32 r = x - n * 0x1.62e4p-1f;  // ln 2 in two parts: this one has few bits, so n times it is exact
  r = r - n * 1.42860682e-6f;    // ln 2 - 0x1.62e4p-1
  F32 p = r * 0.00281228451f + 0.0167581178f;  // minimax on |r| <= ln 2 / 2, relative error 3e-9
  p = p * r + 0.0833295435f;
  p = p * r + 0.333327293f;
  p = p * r + 1.00000012f;
  p = p * r + 2.0f;
  p = p * r + 2.0f;
  const I32 bits = reinterpret_cast<I32>(shifted) << 23;
  return p * reinterpret_cast<F32>(bits);
}
inline F64 exp(F64 x) {
  constexpr double kMagic = 0x1.8p52 + 1022.0;
  x = min(broadcast(710.0), max(broadcast(-708.4), x));
  const F64 shifted = x * 1.4426950408889634 + kMagic;
  const F64 n = shifted - kMagic;
  F64 r = x - n * 0x1.62e42fefp-1;
  r = r - n * 0x1.473de6af278edp-34;      // ln 2 - 0x1.62e42fefp-1
  F64 p = broadcast(2.0 / 6227020800.0);  // Taylor to r^13 / 13!
  p = p * r + 2.0 / 479001600.0;
  p = p * r + 2.0 / 39916800.0;
  p = p * r + 2.0 / 3628800.0;
  p = p * r + 2.0 / 362880.0;
  p = p * r + 2.0 / 40320.0;
  p = p * r + 2.0 / 5040.0;
  p = p * r + 2.0 / 720.0;
  p = p * r + 2.0 / 120.0;
  p = p * r + 2.0 / 24.0;
  p = p * r + 2.0 / 6.0;
  p = p * r + 1.0;
  p = p * r + 2.0;
  p = p * r + 2.0;
  const I64 bits = reinterpret_cast<I64>(shifted) << 52;
  return p * reinterpret_cast<F64>(bits);
}

namespace detail {
// log x = k·ln 2 + log(1 + f) with 1 + f in [sqrt 1/2, sqrt 2), and with s = f / (2 + f):
// log(1 + f) = 2·atanh(s) = f - s·(f - 2·(s²/3 + s⁴/5 + …)), where the correction of f is small.
template <class T>
struct LogConstants;
template <>
struct LogConstants<float> {
  static constexpr int kMantissaBits = 23, kTerms = 4;
  static constexpr int32_t kSqrtHalf = 0x3f3504f3;
  static constexpr float kScale = 0x1p23f, kLn2High = 0x1.62e4p-1f, kLn2Low = 1.42860682e-6f;
};
template <>
struct LogConstants<double> {
  static constexpr int kMantissaBits = 52, kTerms = 10;
  static constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  static constexpr double kScale = 0x1p52, kLn2High = 0x1.62e42fefp-1, kLn2Low = 0x1.473de6af278edp-34;
};

template <class T>
inline Vec<T> log(Vec<T> x) {
  using C = LogConstants<T>;
  using Int = IntVec<T>;
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const Vec<T> zero{};
  const Int denormal = x < broadcast(std::numeric_limits<T>::min());
  const Vec<T> normal = denormal ? x * C::kScale : x;
  const Int bits = reinterpret_cast<Int>(normal);
  const Int exponent = (bits - C::kSqrtHalf) >> C::kMantissaBits;
  const Vec<T> f = reinterpret_cast<Vec<T>>(bits - (exponent << C::kMantissaBits)) - T(1);
  const Int shift = denormal & C::kMantissaBits;
  const Vec<T> k = __builtin_convertvector(exponent - shift, Vec<T>);
  const Vec<T> s = f / (f + T(2));
  const Vec<T> z = s * s;
  Vec<T> series = broadcast(T(2) / (2 * C::kTerms + 1));
  for (int i = C::kTerms - 1; i >= 1; --i) series = series * z + T(2) / (2 * i + 1);
  const Vec<T> correction = s * (f - z * series);
  Vec<T> y = k * C::kLn2High + (f - (correction - k * C::kLn2Low));
  y = x == zero ? broadcast(-kInf) : y;
  y = x < zero ? broadcast(std::numeric_limits<T>::quiet_NaN()) : y;
  return x < broadcast(kInf) ? y : x;  // +inf and NaN as they are
}
// log(1 + x) where u = 1 + x rounds: the lost part x - (u - 1) comes back divided by u.
template <class T>
inline Vec<T> log1p(Vec<T> x) {
  const Vec<T> u = x + T(1);
  const Vec<T> lost = (x - (u - T(1))) / u;
  const Vec<T> y = log<T>(u);
  return u > Vec<T>{} && u < broadcast(std::numeric_limits<T>::infinity()) ? y + lost : y;
}
}  // namespace detail

// Natural logarithm, within 2 units in the last place; -inf at 0, NaN below, denormals included.
inline F32 log(F32 x) {
  return detail::log<float>(x);
}
inline F64 log(F64 x) {
  return detail::log<double>(x);
}
// log(1 + x), accurate for small x.
inline F32 log1p(F32 x) {
  return detail::log1p<float>(x);
}
inline F64 log1p(F64 x) {
  return detail::log1p<double>(x);
}

// y[i] = f(x[i]) for i = 0..n-1, f on vectors. x and y may be the same array.
template <class T, class F>
inline void map(const T* x, T* y, int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store(y + i, f(load(x + i)));
  if (i < n) store_partial(y + i, f(load_partial(x + i, n - i)), n - i);
}

}  // namespace copylab::cpu::simd
