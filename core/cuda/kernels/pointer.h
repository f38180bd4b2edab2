// Pointer attention of the copy heads: scores in tiles of some rows by the keys that these may see, made by
// matrix products and dropped afterwards; backward makes them again. Nothing of size (B, T, T) is kept.
#pragma once

#include <algorithm>

#include "core/cuda/kernels/product.h"
#include "core/kernels.h"

namespace copylab::cuda {

constexpr int64_t kPointerRows = 128;  // of one sequence in a tile

// Rows row..row+rows-1 of every sequence, and all keys that any of them may see: key..key+keys-1.
template <class T>
struct PointerTile {
  int64_t row, rows, key, keys;
  T* scores;  // (B, rows, keys), not scaled
};

// May row t use key j?
template <class T>
CL_DEVICE bool may_use(const PointerArgs<T>& a, int64_t b, int64_t t, int64_t j) {
  const int64_t first = b * (a.memory + a.length), own = a.memory + t;
  if (j + a.shift >= own + (a.copy_self ? 1 : 0) || (a.window > 0 && own - j >= a.window)) return false;
  return a.tokens[first + j] >= 0 && (!a.segment || a.segment[first + own] == a.segment[first + j]);
}
// Does it point at row t's target?
template <class T>
CL_DEVICE bool matches(const PointerArgs<T>& a, int64_t b, int64_t t, int64_t j) {
  const int32_t target = a.targets[b * a.length + t];
  return target >= 0 && a.tokens[b * (a.memory + a.length) + j + a.shift] == target;
}

// f(tile) for tiles that cover all rows; tile.keys may be 0, and then there are no scores.
template <class T, class F>
void for_pointer_tiles(const PointerArgs<T>& a, F&& f) {
  const int64_t most = std::min(a.length, kPointerRows), total_keys = a.memory + a.length;
  Workspace workspace;
  const int64_t widest = a.window > 0 ? std::min(total_keys, a.window + most) : total_keys;
  T* scores = workspace.take<T>(a.batch * most * widest);
  for (int64_t row = 0; row < a.length; row += most) {
    const int64_t rows = std::min(most, a.length - row);
    const int64_t begin = a.window > 0 ? std::max<int64_t>(0, a.memory + row - a.window + 1) : 0;
    const int64_t end = a.memory + row + rows - 1 - a.shift + (a.copy_self ? 1 : 0);
    const PointerTile<T> tile{row, rows, begin, std::max<int64_t>(0, end - begin), scores};
    if (tile.keys > 0)
      multiply<T>({.m = rows,
                   .n = tile.keys,
                   .k = a.dim,
                   .a = {a.q + row * a.dim, a.dim, false, a.length * a.dim},
                   .b = {a.k + begin * a.dim, a.dim, true, total_keys * a.dim},
                   .c = scores,
                   .c_row = tile.keys,
                   .c_stride = rows * tile.keys,
                   .batch = a.batch});
    f(tile);
  }
}

// The largest of the numbers that a warp has met, and the sum of exp(number - largest): a running
// log-sum-exp.
template <class T>
struct LogSum {
  T largest = -kInf<T>;
  T sum = 0;
};
template <class T>
CL_DEVICE void include(LogSum<T>& s, T x) {
  if (x == -kInf<T>) return;
  const T now = maximum(s.largest, x);
  s.sum = s.sum * std::exp(s.largest - now) + std::exp(x - now);
  s.largest = now;
}
template <class T>
CL_DEVICE LogSum<T> join_lanes(LogSum<T> s) {
  const T largest = warp_max(s.largest);
  // A lane that met nothing but NaN has a sum of NaN, which must not get lost.
  s.sum = warp_sum(s.largest == -kInf<T> ? s.sum : s.sum * std::exp(s.largest - largest));
  s.largest = largest;
  return s;
}

// One warp per row.
template <class T>
void pointer_rows(const PointerArgs<T>& args, const PointerTile<T>& t) {
  const PointerArgs<T> a = args;
  const PointerTile<T> tile = t;
  map_rows(
      a.batch * tile.rows, CL_LAMBDA(int64_t i) {
        const int64_t b = i / tile.rows, row_t = tile.row + i % tile.rows, row = b * a.length + row_t;
        const T* scores = tile.scores + i * tile.keys;
        LogSum<T> all, matching;
        for (int64_t j = lane(); j < tile.keys; j += kWarp) {
          if (!may_use(a, b, row_t, tile.key + j)) continue;
          const T score = a.scale * scores[j];
          include(all, score);
          if (matches(a, b, row_t, tile.key + j)) include(matching, score);
        }
        all = join_lanes(all);
        matching = join_lanes(matching);
        const bool any = all.largest > -kInf<T> || all.sum != 0;
        const T sink = a.sink ? a.sink[row] : -kInf<T>;
        const T offset = any ? maximum(all.largest, sink) : T(0);
        const T log_all =
            any ? std::log(all.sum * std::exp(all.largest - offset) + std::exp(sink - offset)) : T(0);
        if (lane() == 0) {
          a.log_copy[row] =
              matching.sum == 0 ? -kInf<T> : (matching.largest - offset) + (std::log(matching.sum) - log_all);
          a.log_sink[row] = any ? (sink - offset) - log_all : T(0);
          a.lse[row] = any ? offset + log_all : sink;
        }
        if (!a.weights) return;
        T* weights = a.weights + row * (a.memory + a.length);
        for (int64_t p = lane(); p < a.memory + a.length; p += kWarp) {
          const int64_t key = p - a.shift, j = key - tile.key;
          const bool used = j >= 0 && j < tile.keys && may_use(a, b, row_t, key);
          weights[p] = used ? std::exp((a.scale * scores[j] - offset) - log_all) : T(0);
        }
      });
}

template <class T>
void pointer(const PointerArgs<T>& a) {
  for_pointer_tiles(a, [&](const PointerTile<T>& tile) { pointer_rows(a, tile); });
}

// Scores become d loss / d score, times the scale; dsink is added to. One warp per row.
//
// With a_j = exp(s_j - lse) and matching share m_j = a_j [match] / sum of matching a:
//   ds_j = dlog_copy (m_j - a_j) - dlog_sink a_j,   ds_sink = dlog_sink (1 - a_sink) - dlog_copy a_sink.
template <class T>
void pointer_rows_backward(const PointerArgs<T>& args, const PointerGrads<T>& grads,
                           const PointerTile<T>& t) {
  const PointerArgs<T> a = args;
  const PointerGrads<T> g = grads;
  const PointerTile<T> tile = t;
  map_rows(
      a.batch * tile.rows, CL_LAMBDA(int64_t i) {
        const int64_t b = i / tile.rows, row_t = tile.row + i % tile.rows, row = b * a.length + row_t;
        T* scores = tile.scores + i * tile.keys;
        const T log_copy = a.log_copy[row], log_sink = a.log_sink[row];
        const T dcopy = g.dlog_copy && log_copy > -kInf<T> ? g.dlog_copy[row] : T(0);
        const T dsink = g.dlog_sink && a.sink ? g.dlog_sink[row] : T(0);
        if (g.dsink && a.sink && lane() == 0)
          g.dsink[row] += dsink * -std::expm1(log_sink) - dcopy * std::exp(log_sink);
        for (int64_t j = lane(); j < tile.keys; j += kWarp) {
          T d = 0;
          if (may_use(a, b, row_t, tile.key + j)) {
            const T log_weight = a.scale * scores[j] - a.lse[row];
            d = -(dcopy + dsink) * std::exp(log_weight);
            if (dcopy != 0 && matches(a, b, row_t, tile.key + j))
              d += dcopy * std::exp(log_weight - log_copy);
          }
          scores[j] = a.scale * d;
        }
      });
}

template <class T>
void pointer_backward(const PointerArgs<T>& a, const PointerGrads<T>& g) {
  for_pointer_tiles(a, [&](const PointerTile<T>& tile) {
    pointer_rows_backward(a, g, tile);
    if (tile.keys == 0) return;
    const int64_t total_keys = a.memory + a.length;
    if (g.dq)
      multiply<T>({.m = tile.rows,
                   .n = a.dim,
                   .k = tile.keys,
                   .a = {tile.scores, tile.keys, false, tile.rows * tile.keys},
                   .b = {a.k + tile.key * a.dim, a.dim, false, total_keys * a.dim},
                   .c = g.dq + tile.row * a.dim,
                   .c_row = a.dim,
                   .c_stride = a.length * a.dim,
                   .add = true,
                   .batch = a.batch});
    if (g.dk)
      multiply<T>({.m = tile.keys,
                   .n = a.dim,
                   .k = tile.rows,
                   .a = {tile.scores, tile.keys, true, tile.rows * tile.keys},
                   .b = {a.q + tile.row * a.dim, a.dim, false, a.length * a.dim},
                   .c = g.dk + tile.key * a.dim,
                   .c_row = a.dim,
                   .c_stride = total_keys * a.dim,
                   .add = true,
                   .batch = a.batch});
  });
}

template <class T>
void fill_pointer(KernelTable<T>& k) {
  k.pointer = pointer<T>;
  k.pointer_backward = pointer_backward<T>;
}

}  // namespace copylab::cuda
