// Matrix product C = A·B or C += A·B on the CPU: packed panels and one register-blocked inner kernel.
//
// Every element of C is a sum over k in increasing order, in blocks of kDepth, each block starting from zero
// and then added to C. That order depends on the shape alone: the bits are the same for any number of threads
// and any cache size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/cpu/parallel.h"
#include "core/cpu/scratch.h"
#include "core/cpu/simd.h"

namespace copylab::cpu::gemm {

// A matrix that is read: element (i, j) is data[i·row + j·col].
template <class T>
struct View {
  const T* data;
  int64_t row, col;
};

// The inner kernel holds kRows x kColumns<T> sums in registers: 24 of AVX-512's 32, 12 of AVX's 16.
#if defined(__AVX512F__)
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif
template <class T>
constexpr int kColumns = 2 * simd::kLanes<T>;
constexpr int64_t kDepth = 256;  // a (kDepth, kColumns) panel of B is 32 KiB with AVX-512

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Elements of B (depth, columns) once packed.
template <class T>
constexpr int64_t packed_size(int64_t depth, int64_t columns) {
  return depth * ceil_div(columns, kColumns<T>) * kColumns<T>;
}

// Packs panel `p` of B (depth, columns): columns p·kColumns.. as rows of kColumns numbers, padded with zeros.
template <class T>
void pack_panel(View<T> b, int64_t depth, int64_t columns, int64_t p, T* packed) {
  constexpr int kWidth = kColumns<T>;
  const int64_t first = p * kWidth, width = std::min<int64_t>(kWidth, columns - first);
  const T* from = b.data + first * b.col;
  T* to = packed + p * kWidth * depth;
  if (b.col == 1) {
    for (int64_t k = 0; k < depth; ++k, to += kWidth) {
      const T* row = from + k * b.row;
      if (width == kWidth) {
        simd::store(to, simd::load(row));
        simd::store(to + kWidth / 2, simd::load(row + kWidth / 2));
      } else {
        for (int64_t j = 0; j < kWidth; ++j) to[j] = j < width ? row[j] : T(0);
      }
    }
    return;
  }
  for (int64_t j = 0; j < kWidth; ++j) {
    if (j < width) {
      for (int64_t k = 0; k < depth; ++k) to[k * kWidth + j] = from[k * b.row + j * b.col];
    } else {
      for (int64_t k = 0; k < depth; ++k) to[k * kWidth + j] = T(0);
    }
  }
}

// c (rows, columns <= vectors·lanes) = or += a (rows, depth) · b, where b is a panel of rows `b_row` apart.
template <class T, int kTileRows, int kVectors, bool kUnitRows>
[[gnu::noinline]] void tile(int64_t depth, View<T> a, const T* b, int64_t b_row, T* c, int64_t c_row,
                            int64_t columns, bool accumulate) {
  using V = simd::Vec<T>;
  constexpr int kLanes = simd::kLanes<T>;
  const int64_t a_row = kUnitRows ? 1 : a.row;
  const T* pa = a.data;
  V sum[kTileRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    V vb[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) vb[j] = simd::load(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
      const V va = simd::broadcast(pa[i * a_row]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] += va * vb[j];
    }
    pa += a.col;
    b += b_row;
  }
  if (columns == kVectors * kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        T* to = c + i * c_row + j * kLanes;
        simd::store(to, accumulate ? simd::load(to) + sum[i][j] : sum[i][j]);
      }
    }
    return;
  }
  T buffer[kTileRows][kVectors * kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) simd::store(&buffer[i][j * kLanes], sum[i][j]);
  }
  for (int i = 0; i < kTileRows; ++i) {
    T* to = c + i * c_row;
    for (int64_t j = 0; j < columns; ++j) to[j] = accumulate ? to[j] + buffer[i][j] : buffer[i][j];
  }
}

template <class T>
using TileFn = void (*)(int64_t, View<T>, const T*, int64_t, T*, int64_t, int64_t, bool);

// The inner kernel for `rows` 1..kRows.
template <class T, int kVectors, bool kUnitRows, size_t... kI>
inline TileFn<T> tile_of(int rows, std::index_sequence<kI...>) {
  static constexpr TileFn<T> table[] = {&tile<T, static_cast<int>(kI) + 1, kVectors, kUnitRows>...};
  return table[rows - 1];
}
template <class T>
inline void run_tile(int rows, int64_t depth, View<T> a, const T* b, int64_t b_row, T* c, int64_t c_row,
                     int64_t columns, bool accumulate) {
  constexpr auto kSizes = std::make_index_sequence<kRows>{};
  const bool narrow = columns <= simd::kLanes<T>, unit = a.row == 1;
  const TileFn<T> f = narrow
                          ? (unit ? tile_of<T, 1, true>(rows, kSizes) : tile_of<T, 1, false>(rows, kSizes))
                          : (unit ? tile_of<T, 2, true>(rows, kSizes) : tile_of<T, 2, false>(rows, kSizes));
  f(depth, a, b, b_row, c, c_row, columns, accumulate);
}

// First row of the t-th of `tiles` tiles of nearly equal height.
constexpr int64_t tile_begin(int64_t rows, int64_t tiles, int64_t t) {
  return rows * t / tiles;
}

// Serial: C (rows, columns) = or += A (rows, depth) · B. B's panels, packed by pack_panel, are `panel_size`
// elements apart: more than depth·kColumns where only `depth` rows of a deeper packed B are meant.
template <class T>
void multiply_packed(int64_t rows, int64_t columns, int64_t depth, View<T> a, const T* packed,
                     int64_t panel_size, T* c, int64_t c_row, bool accumulate) {
  constexpr int64_t kWidth = kColumns<T>;
  const int64_t tiles = ceil_div(rows, kRows);
  for (int64_t j = 0; j < columns; j += kWidth, packed += panel_size) {
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t i = tile_begin(rows, tiles, t), end = tile_begin(rows, tiles, t + 1);
      run_tile<T>(static_cast<int>(end - i), depth, {a.data + i * a.row, a.row, a.col}, packed, kWidth,
                  c + i * c_row + j, c_row, std::min(kWidth, columns - j), accumulate);
    }
  }
}

namespace detail {
struct PackedA;
struct PackedB;

// Whether rows of A are better copied side by side first: when they are read many times, or when the distance
// of what a tile reads would map it to the same few sets of the L1 cache.
template <class T>
bool worth_packing(View<T> a, int64_t columns) {
  const int64_t distance = (a.row == 1 ? a.col : a.row) * static_cast<int64_t>(sizeof(T));
  return columns >= 512 || distance % 2048 == 0;
}

// Packs n <= kRows rows of A as columns of kRows numbers; numbers beyond n are left as they were.
template <class T>
void pack_rows(View<T> a, int64_t n, int64_t depth, T* to) {
  constexpr int64_t kHalf = kRows / 2;
  if (a.row == 1 && n >= kHalf) {  // two copies of a fixed size, which may overlap
    for (int64_t k = 0; k < depth; ++k) {
      std::memcpy(to + k * kRows, a.data + k * a.col, sizeof(T) * kHalf);
      std::memcpy(to + k * kRows + n - kHalf, a.data + k * a.col + n - kHalf, sizeof(T) * kHalf);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < depth; ++k) to[k * kRows + i] = a.data[i * a.row + k * a.col];
  }
}
}  // namespace detail

// C (rows, columns), rows `c_row` apart, = or += A (rows, depth) · B (depth, columns), on all threads.
template <class T>
void multiply(int64_t rows, int64_t columns, int64_t depth, View<T> a, View<T> b, T* c, int64_t c_row,
              bool accumulate) {
  constexpr int64_t kWidth = kColumns<T>;
  constexpr int64_t kMaxColumns = 2048;      // of one packed block of B
  constexpr int64_t kMaxPacked = 512 << 10;  // elements of one packed block of B: 2 MiB in float
  constexpr int64_t kMaxTiles = 8;           // row tiles of one task: A's part stays in L2
  constexpr int64_t kMinTasks = 16;
  if (depth == 0 && !accumulate) {
    for (int64_t i = 0; i < rows; ++i) std::fill_n(c + i * c_row, columns, T(0));
  }
  if (rows == 0 || columns == 0) return;
  const int64_t block_columns = std::min(kMaxColumns, ceil_div(columns, kWidth) * kWidth);
  const int64_t block_depth = std::max(kDepth, kMaxPacked / block_columns / kDepth * kDepth);
  const int64_t tiles = ceil_div(rows, kRows);
  const int64_t tiles_per_task = std::clamp<int64_t>(tiles / kMinTasks, 1, kMaxTiles);
  const int64_t row_tasks = ceil_div(tiles, tiles_per_task);
  for (int64_t j0 = 0; j0 < columns; j0 += block_columns) {
    const int64_t nc = std::min(block_columns, columns - j0), panels = ceil_div(nc, kWidth);
    const int64_t panels_per_task = ceil_div(panels, ceil_div(kMinTasks, row_tasks));
    const int64_t column_tasks = ceil_div(panels, panels_per_task);
    const bool pack_a = detail::worth_packing(a, panels_per_task * kWidth);
    for (int64_t k0 = 0; k0 < depth; k0 += block_depth) {
      const int64_t kb = std::min(block_depth, depth - k0);
      T* packed = scratch<detail::PackedB, T>(packed_size<T>(kb, nc));
      const View<T> bk{b.data + k0 * b.row + j0 * b.col, b.row, b.col};
      parallel_for(panels, kb * nc, [&](int64_t p) { pack_panel(bk, kb, nc, p, packed); });
      parallel_for(row_tasks * column_tasks, rows * nc * kb / 16, [&](int64_t task) {
        const int64_t t0 = task / column_tasks * tiles_per_task, t1 = std::min(tiles, t0 + tiles_per_task);
        const int64_t p0 = task % column_tasks * panels_per_task, p1 = std::min(panels, p0 + panels_per_task);
        T* a_copy = pack_a ? scratch<detail::PackedA, T>(kMaxTiles * kRows * kDepth) : nullptr;
        for (int64_t k = 0; k < kb; k += kDepth) {
          const int64_t kc = std::min(kDepth, kb - k);
          const bool add = accumulate || k0 + k > 0;
          const View<T> ak{a.data + (k0 + k) * a.col, a.row, a.col};
          if (pack_a) {
            for (int64_t t = t0; t < t1; ++t) {
              const int64_t i0 = tile_begin(rows, tiles, t), n = tile_begin(rows, tiles, t + 1) - i0;
              detail::pack_rows<T>({ak.data + i0 * a.row, a.row, a.col}, n, kc,
                                   a_copy + (t - t0) * kRows * kDepth);
            }
          }
          for (int64_t p = p0; p < p1; ++p) {
            const T* panel = packed + p * kWidth * kb + k * kWidth;
            for (int64_t t = t0; t < t1; ++t) {
              const int64_t i0 = tile_begin(rows, tiles, t), n = tile_begin(rows, tiles, t + 1) - i0;
              const View<T> at = pack_a ? View<T>{a_copy + (t - t0) * kRows * kDepth, 1, kRows}
                                        : View<T>{ak.data + i0 * a.row, a.row, a.col};
              run_tile<T>(static_cast<int>(n), kc, at, panel, kWidth, c + i0 * c_row + j0 + p * kWidth, c_row,
                          std::min(kWidth, nc - p * kWidth), add);
            }
          }
        }
      });
    }
  }
}

}  // namespace copylab::cpu::gemm
