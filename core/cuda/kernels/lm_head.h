// The output head: log-sum-exp of h·Wᵀ over the vocabulary, forward and backward, in tiles of bounded size.
//
// A tile is a matrix product of some rows of h and some rows of W. Forward, one pass over it brings the
// statistics of its rows up to date and takes out the chosen logits, so that these have the same rounding as
// what entered the log-sum-exp. Backward, the tile is computed again and turned into its own gradient, which
// two more products carry on to dh and dW.
#pragma once

#include <algorithm>

#include "core/cuda/kernels/product.h"
#include "core/kernels.h"

namespace copylab::cuda {

constexpr int64_t kHeadRows = 1024, kHeadColumns = 8192;  // of a tile: 32 MiB in float32

template <class T>
struct HeadTile {
  int64_t row, rows;        // of h
  int64_t column, columns;  // of the logits
  T* logits;                // (rows, columns)
  Matrix<T> h, w;           // the rows of which they are products
};

// f(tile) for all tiles of logits, those of one block of rows after each other.
template <class T, class F>
void for_head_tiles(const LmHeadArgs<T>& a, F&& f) {
  const int64_t rows = std::min(a.rows, kHeadRows), columns = std::min(a.weight_rows, kHeadColumns);
  Workspace workspace;
  T* logits = workspace.take<T>(rows * columns);
  const Bf16* rounded_h = round_once(a.h, a.rows * a.dim, workspace);
  const Bf16* rounded_w = round_once(a.w, a.weight_rows * a.dim, workspace);
  const auto rows_from = [&](const T* data, const Bf16* rounded, int64_t row) {
    return Matrix<T>{
        .data = data + row * a.dim, .row = a.dim, .rounded = rounded ? rounded + row * a.dim : nullptr};
  };
  for (int64_t row = 0; row < a.rows; row += rows)
    for (int64_t column = 0; column < a.weight_rows; column += columns) {
      const HeadTile<T> tile{row,
                             std::min(rows, a.rows - row),
                             column,
                             std::min(columns, a.weight_rows - column),
                             logits,
                             rows_from(a.h, rounded_h, row),
                             rows_from(a.w, rounded_w, column)};
      Matrix<T> w_transposed = tile.w;
      w_transposed.transposed = true;
      multiply<T>({.m = tile.rows,
                   .n = tile.columns,
                   .k = a.dim,
                   .a = tile.h,
                   .b = w_transposed,
                   .c = logits,
                   .c_row = tile.columns});
      f(tile);
    }
}

// One warp per row: the running maximum (in a.shift), the sum of exp(logit - maximum) (in a.lse) and
// a.argmax.
template <class T>
void update_statistics(const LmHeadArgs<T>& args, const HeadTile<T>& t) {
  const LmHeadArgs<T> a = args;
  const HeadTile<T> tile = t;
  map_rows(
      tile.rows, CL_LAMBDA(int64_t r) {
        const T* logits = tile.logits + r * tile.columns;
        const int64_t row = tile.row + r, end = minimum(tile.columns, a.vocab - tile.column);
        const auto counts = [&](int64_t j) { return !a.excluded || !a.excluded[tile.column + j]; };
        T largest = -kInf<T>;
        int64_t at = end;
        for (int64_t j = lane(); j < end; j += kWarp)
          if (counts(j) && logits[j] > largest) {
            largest = logits[j];
            at = j;
          }
        const T tile_max = warp_max(largest);
        at = warp_min(largest == tile_max ? at : end);
        const T before = a.shift[row], now = maximum(before, tile_max);
        const T from = now == -kInf<T> ? T(0) : now;  // -inf - -inf would be NaN
        T sum = 0;
        for (int64_t j = lane(); j < end; j += kWarp)
          if (counts(j)) sum += std::exp(logits[j] - from);
        sum = warp_sum(sum);
        if (lane() != 0) return;
        if (tile_max > before) a.argmax[row] = static_cast<int32_t>(tile.column + at);
        a.shift[row] = now;
        a.lse[row] = a.lse[row] * std::exp(before - from) + sum;
      });
}

// The logits at chosen columns that lie in the tile, not shifted yet.
template <class T>
void take_chosen(const LmHeadArgs<T>& args, const HeadTile<T>& t) {
  const LmHeadArgs<T> a = args;
  const HeadTile<T> tile = t;
  map(
      tile.rows * a.columns, CL_LAMBDA(int64_t i) {
        const int64_t at = tile.row * a.columns + i, j = a.column_ids[at] - tile.column;
        if (j >= 0 && j < tile.columns) a.logits[at] = tile.logits[i / a.columns * tile.columns + j];
      });
}

template <class T>
void lm_head(const LmHeadArgs<T>& args) {
  const LmHeadArgs<T> a = args;
  map(
      a.rows, CL_LAMBDA(int64_t row) {
        a.shift[row] = -kInf<T>;
        a.lse[row] = 0;
        a.argmax[row] = -1;
      });
  for_head_tiles(a, [&](const HeadTile<T>& tile) {
    if (tile.column < a.vocab) update_statistics(a, tile);
    take_chosen(a, tile);
  });
  map(
      a.rows, CL_LAMBDA(int64_t row) {
        const T shift = a.shift[row] == -kInf<T> ? T(0) : a.shift[row];
        a.shift[row] = shift;
        a.lse[row] = std::log(a.lse[row]);
        for (int64_t i = row * a.columns; i < (row + 1) * a.columns; ++i)
          a.logits[i] = a.column_ids[i] < 0 ? T(0) : a.logits[i] - shift;
      });
}

// Logits become d loss / d logit.
template <class T>
void tile_gradient(const LmHeadArgs<T>& args, const LmHeadGrads<T>& grads, const HeadTile<T>& t) {
  const LmHeadArgs<T> a = args;
  const LmHeadGrads<T> g = grads;
  const HeadTile<T> tile = t;
  map(
      tile.rows * tile.columns, CL_LAMBDA(int64_t i) {
        const int64_t row = tile.row + i / tile.columns, v = tile.column + i % tile.columns;
        const bool counts = g.dlse && v < a.vocab && !(a.excluded && a.excluded[v]);
        tile.logits[i] = counts ? g.dlse[row] * std::exp(tile.logits[i] - a.shift[row] - a.lse[row]) : T(0);
      });
  if (g.dlogits)
    map(
        tile.rows, CL_LAMBDA(int64_t r) {
          for (int64_t i = (tile.row + r) * a.columns; i < (tile.row + r + 1) * a.columns; ++i) {
            const int64_t j = a.column_ids[i] - tile.column;
            if (j >= 0 && j < tile.columns) tile.logits[r * tile.columns + j] += g.dlogits[i];
          }
        });
}

template <class T>
void lm_head_backward(const LmHeadArgs<T>& a, const LmHeadGrads<T>& g) {
  if ((!g.dh && !g.dw) || (!g.dlse && !g.dlogits)) return;
  for_head_tiles(a, [&](const HeadTile<T>& tile) {
    tile_gradient(a, g, tile);
    Workspace workspace;
    const Bf16* rounded =
        g.dh && g.dw ? round_once(tile.logits, tile.rows * tile.columns, workspace) : nullptr;
    if (g.dh)
      multiply<T>({.m = tile.rows,
                   .n = a.dim,
                   .k = tile.columns,
                   .a = {.data = tile.logits, .row = tile.columns, .rounded = rounded},
                   .b = tile.w,
                   .c = g.dh + tile.row * a.dim,
                   .c_row = a.dim,
                   .add = true});
    if (g.dw)
      multiply<T>({.m = tile.columns,
                   .n = a.dim,
                   .k = tile.rows,
                   .a = {.data = tile.logits, .row = tile.columns, .transposed = true, .rounded = rounded},
                   .b = tile.h,
                   .c = g.dw + tile.column * a.dim,
                   .c_row = a.dim,
                   .add = true});
  });
}

template <class T>
void fill_lm_head(KernelTable<T>& k) {
  k.lm_head = lm_head<T>;
  k.lm_head_backward = lm_head_backward<T>;
}

}  // namespace copylab::cuda
