// Small dense blocks: the packing, products and row reductions that attention and pointer are built from.
//
// A packed matrix has rows of a whole number of SIMD vectors, padded with zeros, so that inner loops have no
// remainders. Every element of a product is one chain of multiply-adds in index order, so its bits do not
// depend on how the matrix was cut into blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/cpu/simd.h"

namespace copylab::cpu {

// Rows of the register tile; with two vectors a row, 16 accumulators of AVX-512's 32 registers, 8 of 16 else.
constexpr int kTileRows = simd::kBytes == 64 ? 8 : 4;

// n rounded up to whole vectors: the row length of a packed matrix of n columns.
template <class T>
constexpr int64_t padded(int64_t n) {
  return (n + simd::kLanes<T> - 1) / simd::kLanes<T> * simd::kLanes<T>;
}
template <class T>
constexpr int64_t aligned_down(int64_t n) {
  return n / simd::kLanes<T> * simd::kLanes<T>;
}

template <class T>
constexpr T kMinusInf = -std::numeric_limits<T>::infinity();

// Working memory of one task, handed out piece by piece; a piece must be a whole number of vectors.
template <class T>
class Pieces {
 public:
  explicit Pieces(T* memory) : next_(memory) {}
  T* take(int64_t n) {
    T* p = next_;
    next_ += n;
    return p;
  }

 private:
  T* next_;
};

namespace detail {
template <class T, bool kAdd, int kVectors>
inline void product_columns(int64_t m, int64_t k, const T* a, int64_t row_step, int64_t step, const T* b,
                            int64_t ldb, T* c, int64_t ldc) {
  constexpr int64_t lanes = simd::kLanes<T>;
  for (int64_t i = 0; i < m; i += kTileRows) {
    simd::Vec<T> sum[kTileRows][kVectors];
    for (int r = 0; r < kTileRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = kAdd ? simd::load(c + (i + r) * ldc + v * lanes) : simd::Vec<T>{};
    const T* left = a + i * row_step;
    for (int64_t p = 0; p < k; ++p) {
      simd::Vec<T> right[kVectors];
      for (int v = 0; v < kVectors; ++v) right[v] = simd::load(b + p * ldb + v * lanes);
      for (int r = 0; r < kTileRows; ++r)
        for (int v = 0; v < kVectors; ++v) sum[r][v] += left[r * row_step + p * step] * right[v];
    }
    for (int r = 0; r < kTileRows; ++r)
      for (int v = 0; v < kVectors; ++v) simd::store(c + (i + r) * ldc + v * lanes, sum[r][v]);
  }
}
}  // namespace detail

// C (m, n) = A·B, or C += A·B with `kAdd`; A's element (i, p) is a[i·row_step + p·step]; B (k, n) and C are
// packed with row lengths ldb and ldc. m must be a multiple of kTileRows, n whole vectors.
template <class T, bool kAdd>
inline void block_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t row_step, int64_t step,
                          const T* b, int64_t ldb, T* c, int64_t ldc) {
  constexpr int64_t lanes = simd::kLanes<T>;
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes)
    detail::product_columns<T, kAdd, 2>(m, k, a, row_step, step, b + j, ldb, c + j, ldc);
  if (j < n) detail::product_columns<T, kAdd, 1>(m, k, a, row_step, step, b + j, ldb, c + j, ldc);
}

// `to` (rows_padded, padded(cols)) = scale · x, zero outside of x (rows, cols; row length `stride`).
template <class T>
inline void pack(const T* x, int64_t stride, int64_t rows, int64_t cols, T scale, int64_t rows_padded,
                 T* to) {
  const int64_t ld = padded<T>(cols);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) to[i * ld + j] = scale * x[i * stride + j];
    std::fill(to + i * ld + cols, to + (i + 1) * ld, T(0));
  }
  std::fill(to + rows * ld, to + rows_padded * ld, T(0));
}

// `to` (cols, padded(rows)) = xᵀ, zero outside of x (rows, cols; row length `stride`).
template <class T>
inline void pack_transposed(const T* x, int64_t stride, int64_t rows, int64_t cols, T* to) {
  constexpr int64_t lanes = simd::kLanes<T>;
  const int64_t ld = padded<T>(rows);
  for (int64_t i = 0; i < ld; i += lanes)
    for (int64_t j = 0; j < cols; j += lanes) {
      const int64_t m = std::min(lanes, rows - i), n = std::min(lanes, cols - j);
      simd::Vec<T> square[lanes];
      for (int64_t r = 0; r < lanes; ++r) {
        const T* from = x + (i + r) * stride + j;
        if (r >= m)
          square[r] = simd::Vec<T>{};
        else
          square[r] = n == lanes ? simd::load(from) : simd::load_partial(from, n);
      }
      simd::transpose<T>(square);
      for (int64_t c = 0; c < n; ++c) simd::store(to + (j + c) * ld + i, square[c]);
    }
}

// x += scale · packed, for the rows and columns of x.
template <class T>
inline void add_packed(const T* packed, int64_t rows, int64_t cols, T scale, T* x, int64_t stride) {
  const int64_t ld = padded<T>(cols);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) x[i * stride + j] += scale * packed[i * ld + j];
}

// The largest of s[0..n), whole vectors.
template <class T>
inline T row_max(const T* s, int64_t n) {
  simd::Vec<T> largest = simd::broadcast(kMinusInf<T>);
  for (int64_t j = 0; j < n; j += simd::kLanes<T>) largest = simd::max(simd::load(s + j), largest);
  return simd::max_lane(largest);
}

// s = exp(s - offset) for s[0..n), whole vectors; returns the sum.
template <class T>
inline T row_exp(T* s, int64_t n, T offset) {
  simd::Vec<T> sum{};
  for (int64_t j = 0; j < n; j += simd::kLanes<T>) {
    const simd::Vec<T> e = simd::exp(simd::load(s + j) - offset);
    simd::store(s + j, e);
    sum += e;
  }
  return simd::sum(sum);
}

}  // namespace copylab::cpu
