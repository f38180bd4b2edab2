// Small dense blocks: the packing, products and row reductions that attention and pointer are built from.
//
// A packed matrix has rows of a whole number of SIMD vectors, padded with zeros, so that inner loops have no
// remainders. Each product adds up an element in index order, so its bits do not depend on the tile that
// computes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/cpu/gemm.h"
#include "core/cpu/simd.h"

namespace copylab::cpu {

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

// C (m, n) = A·B, or C += A·B with `add`; B (k, n) and C are packed with row lengths ldb and ldc, and n is a
// whole number of vectors.
template <class T>
inline void block_product(int64_t m, int64_t n, int64_t k, gemm::View<T> a, const T* b, int64_t ldb, T* c,
                          int64_t ldc, bool add) {
  const int64_t height = gemm::ceil_div(m, gemm::ceil_div(m, gemm::kRows));
  for (int64_t j = 0; j < n; j += gemm::kColumns<T>)
    for (int64_t i = 0; i < m; i += height)
      gemm::run_tile<T>(static_cast<int>(std::min(height, m - i)), k, {a.data + i * a.row, a.row, a.col},
                        b + j, ldb, c + i * ldc + j, ldc, std::min<int64_t>(gemm::kColumns<T>, n - j), add);
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
