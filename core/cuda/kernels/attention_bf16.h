// Causal self-attention with bfloat16 operands on tensor cores: tiles of 64 queries by 64 keys, of which each
// of a block's four warps owns 16 rows. Scores and their softmax stay float32 in the registers where the
// product left them, and go on from there, rounded, as operands of the next product.
//
// Rounded are q, k, v, dout, the probabilities (forward before they are divided by their sum) and the
// gradients of the scores. Tiles that nobody sees are not visited; where everyone sees everything, nothing is
// masked.
#pragma once

#include <type_traits>

#include "core/cuda/kernels/attention_mask.h"
#include "core/cuda/kernels/map.h"
#include "core/cuda/mma.h"

namespace copylab::cuda {

constexpr int kSide = 64;  // queries and keys of a tile
static_assert(kSide == 16 * kWarps);
constexpr float kLog2e = 1.44269504088896341f, kLn2 = 0.69314718055994531f;

// Rows of rounded numbers in shared memory; 16 bytes behind each let eight rows of one column lie in
// different banks.
template <int kDim>
struct RoundedTile {
  alignas(16) Bf16 x[kSide][kDim + 8];
};

// Rows of numbers in global memory: some that exist, of `dim` numbers, one after another `stride` apart.
template <class X>
struct GlobalRows {
  X* data;
  int64_t stride;
  int rows, dim;
};

CL_DEVICE int rows_from(int64_t length, int64_t t) {
  return static_cast<int>(minimum<int64_t>(kSide, length - t));
}
// Queries t.. of a head, or keys of a kv head.
template <class X>
CL_DEVICE GlobalRows<X> queries_from(const AttentionArgs<float>& a, X* x, int64_t b, int64_t head,
                                     int64_t t) {
  return {x + ((b * a.length + t) * a.heads + head) * a.head_dim, a.heads * a.head_dim,
          rows_from(a.length, t), static_cast<int>(a.head_dim)};
}
template <class X>
CL_DEVICE GlobalRows<X> keys_from(const AttentionArgs<float>& a, X* x, int64_t b, int64_t kv_head,
                                  int64_t j) {
  return {x + ((b * a.length + j) * a.kv_heads + kv_head) * a.head_dim, a.kv_heads * a.head_dim,
          rows_from(a.length, j), static_cast<int>(a.head_dim)};
}

// Makes tiles of rows, with zeros where there are none; a thread asks for 8 times 16 bytes before it uses
// them.
template <int kDim, int kTiles>
CL_DEVICE void load_rounded(const GlobalRows<const float> (&from)[kTiles],
                            RoundedTile<kDim>* const (&to)[kTiles]) {
  constexpr int kFours = kDim / 4, kStep = kThreads / kFours,
                kTurn = 8 / kTiles < kSide / kStep ? 8 / kTiles : kSide / kStep;
  const int column = thread() % kFours * 4;
  for (int first = 0; first < kSide; first += kTurn * kStep) {
    FourNumbers x[kTiles][kTurn];
    CL_UNROLL for (int n = 0; n < kTiles; ++n) {
      const float* data = from[n].data + (first + thread() / kFours) * from[n].stride + column;
      CL_UNROLL for (int m = 0; m < kTurn; ++m) {
        const bool there = first + thread() / kFours + m * kStep < from[n].rows && column < from[n].dim;
        x[n][m] = {};
        if (there) x[n][m] = *reinterpret_cast<const FourNumbers*>(data + m * kStep * from[n].stride);
      }
    }
    CL_UNROLL for (int n = 0; n < kTiles; ++n) {
      CL_UNROLL for (int m = 0; m < kTurn; ++m) {
        *reinterpret_cast<FourRounded*>(&to[n]->x[first + thread() / kFours + m * kStep][column]) =
            rounded(x[n][m]);
      }
    }
  }
}

// The 16 x 16 numbers at (row, column) as blocks of 8 x 8: two below each other, then the two right of them.
template <bool kTransposed, int kDim>
CL_DEVICE void load_square(const RoundedTile<kDim>& tile, int row, int column, uint32_t (&words)[4]) {
  load_blocks<kTransposed>(&tile.x[row + lane() % 16][column + lane() / 16 * 8], words);
}

// The warp's own 16 rows of a tile, as left operands.
template <int kDim>
CL_DEVICE void take_own_rows(const RoundedTile<kDim>& tile, uint32_t (&own)[kDim / 16][4]) {
  CL_UNROLL for (int k = 0; k < kDim / 16; ++k) load_square<false>(tile, 16 * warp(), 16 * k, own[k]);
}

// s = the dot products of own rows and rows first..first+8·kColumns-1 of `other`.
template <int kColumns, int kDim>
CL_DEVICE void dot_products(const uint32_t (&own)[kDim / 16][4], const RoundedTile<kDim>& other, int first,
                            float (&s)[kColumns][4]) {
  CL_UNROLL for (int n = 0; n < kColumns; ++n) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
  CL_UNROLL for (int k = 0; k < kDim / 16; ++k) {
    CL_UNROLL for (int n = 0; n < kColumns; n += 2) {
      uint32_t words[4];
      load_square<false>(other, first + 8 * n, 16 * k, words);
      multiply_add(s[n], own[k], words[0], words[2]);
      multiply_add(s[n + 1], own[k], words[1], words[3]);
    }
  }
}

// sum += p, rounded, times rows first..first+8·kColumns-1 of `other`.
template <int kColumns, int kDim>
CL_DEVICE void add_rows(const float (&p)[kColumns][4], const RoundedTile<kDim>& other, int first,
                        float (&sum)[kDim / 8][4]) {
  CL_UNROLL for (int n = 0; n < kColumns; n += 2) {
    const uint32_t rounded[4] = {bf16_pair(p[n][0], p[n][1]), bf16_pair(p[n][2], p[n][3]),
                                 bf16_pair(p[n + 1][0], p[n + 1][1]), bf16_pair(p[n + 1][2], p[n + 1][3])};
    CL_UNROLL for (int c = 0; c < kDim / 8; c += 2) {
      uint32_t words[4];
      load_square<true>(other, first + 8 * n, 8 * c, words);
      multiply_add(sum[c], rounded, words[0], words[1]);
      multiply_add(sum[c + 1], rounded, words[2], words[3]);
    }
  }
}

// Where number i of product n lies among a tile's rows, and among the columns of what the warp computes.
CL_DEVICE int own_row(int i) {
  return 16 * warp() + lane() / 4 + i / 2 * 8;
}
CL_DEVICE int own_column(int n, int i) {
  return 8 * n + lane() % 4 * 2 + i % 2;
}
// Over the four lanes that share a row.
CL_DEVICE float row_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}
CL_DEVICE float row_max(float x) {
  x = std::fmax(x, shuffle_xor(x, 1));
  return std::fmax(x, shuffle_xor(x, 2));
}

// What 64 positions have in common: the range of their segments, of those that are marked, and whether that
// is one segment and all are marked.
struct TileSpan {
  int32_t low, high;
  int32_t one;
};

// Of all tiles of all sequences; null if nothing but causality and the window hides keys.
inline const TileSpan* tile_spans(const AttentionArgs<float>& args, Workspace& workspace) {
  if (!args.segment && !args.marked) return nullptr;
  const AttentionArgs<float> a = args;
  const int64_t tiles = ceil_div(a.length, kSide);
  TileSpan* spans = workspace.take<TileSpan>(a.batch * tiles);
  map_rows(
      a.batch * tiles, CL_LAMBDA(int64_t i) {
        const int64_t begin = i % tiles * kSide, end = minimum(a.length, begin + kSide);
        int32_t low = INT32_MAX, high = INT32_MIN, hidden = 0;
        for (int64_t t = begin + lane(); t < end; t += kWarp) {
          const int64_t at = i / tiles * a.length + t;
          if (a.marked && !a.marked[at]) {
            hidden = 1;
          } else {
            low = minimum(low, a.segment ? a.segment[at] : 0);
            high = maximum(high, a.segment ? a.segment[at] : 0);
          }
        }
        low = warp_min(low);
        high = warp_max(high);
        hidden = warp_max(hidden);
        if (lane() == 0) spans[i] = {low, high, low == high && !hidden};
      });
  return spans;
}

// How much of a tile is seen: nothing, what the diagonal and the window leave and options hide in part, all
// that these two leave, everything.
enum class Sight { none, some, interval, all };
// By queries t0.. of keys j0.., given that the diagonal and the window leave something.
CL_DEVICE Sight sight(const AttentionArgs<float>& a, const TileSpan* spans, int64_t b, int64_t t0,
                      int64_t j0) {
  bool some = a.allowed;
  if (spans) {
    const int64_t tiles = (a.length + kSide - 1) / kSide;
    const TileSpan of = spans[b * tiles + t0 / kSide], on = spans[b * tiles + j0 / kSide];
    if (of.low > on.high || on.low > of.high) return Sight::none;
    some = some || !of.one || !on.one;
  }
  if (some) return Sight::some;
  const bool all = !a.bias && a.scale > 0 && t0 + kSide <= a.length && j0 + kSide - 1 <= t0 &&
                   (a.window == 0 || t0 + kSide - 1 - j0 < a.window);
  return all ? Sight::all : Sight::interval;
}

// Products of queries and keys become scores, -inf where a query does not see a key. The warp's own rows are
// queries, and columns are keys, or the other way round. Returns the unit of scores: times it, they are the
// exponents of 2. Where everything is seen, nothing has to be done.
template <bool kOwnKeys, int kColumns>
CL_DEVICE float to_scores(const AttentionArgs<float>& a, Sight seen, int64_t b, int64_t own_first,
                          int64_t column_first, float (&s)[kColumns][4]) {
  const float scale = a.scale * kLog2e;
  if (seen == Sight::all) return scale;
  // The diagonal and the window leave an interval of columns; the rest is asked for one by one.
  int low[2], high[2];
  CL_UNROLL for (int r = 0; r < 2; ++r) {
    const int64_t own = own_first + own_row(2 * r), reach = a.window > 0 ? a.window : a.length;
    const int64_t first = kOwnKeys ? own : own - reach + 1;
    const int64_t last = kOwnKeys ? minimum(a.length, own + reach) - 1 : own < a.length ? own : -1;
    low[r] = static_cast<int>(first - column_first);
    high[r] = static_cast<int>(last - column_first);
  }
  const auto row_of = [&](int n, int i) {
    return kOwnKeys ? column_first + own_column(n, i) : own_first + own_row(i);
  };
  const auto key_of = [&](int n, int i) {
    return kOwnKeys ? own_first + own_row(i) : column_first + own_column(n, i);
  };
  uint32_t hidden = 0;
  if (seen == Sight::some) {
    CL_ROLL for (int at = 0; at < 4 * kColumns; ++at) {
      if (!sees(a, b, row_of(at / 4, at % 4), key_of(at / 4, at % 4))) hidden |= 1u << at;
    }
  }
  CL_UNROLL for (int n = 0; n < kColumns; ++n) {
    CL_UNROLL for (int i = 0; i < 4; ++i) {
      const int column = own_column(n, i);
      if (column < low[i / 2] || column > high[i / 2] || (hidden >> (4 * n + i) & 1))
        s[n][i] = -kInf<float>;
      else
        s[n][i] = scale * s[n][i] + (a.bias ? kLog2e * a.bias[row_of(n, i) * a.length + key_of(n, i)] : 0.0f);
    }
  }
  return 1;
}

// The log-sum-exp of a row backward, in units of log 2: what sees nothing has probabilities of 0.
CL_DEVICE float row_lse(const AttentionArgs<float>& a, int64_t at) {
  return a.lse[at] == -kInf<float> ? kInf<float> : kLog2e * a.lse[at];
}

// How many blocks are to find room for their registers on a multiprocessor.
template <int kDim>
constexpr int kForwardBlocks = kDim > 64 ? 2 : 4;
template <int kDim>
constexpr int kBackwardBlocks = kDim > 64 ? 2 : 3;

// A block: 64 rows of one head, those with most to see first.
template <int kDim>
CL_KERNEL_OF(kThreads, kForwardBlocks<kDim>)
attention_bf16_kernel(AttentionArgs<float> a, const TileSpan* spans) {
  CL_SHARED(RoundedTile<kDim>, keys, 1);
  CL_SHARED(RoundedTile<kDim>, values, 1);
  const int64_t bh = block() % (a.batch * a.heads), b = bh / a.heads, head = bh % a.heads;
  const int64_t t0 = ((a.length - 1) / kSide - block() / (a.batch * a.heads)) * kSide;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  uint32_t q[kDim / 16][4];
  load_rounded<kDim, 1>({queries_from(a, a.q, b, head, t0)}, {keys});
  sync_block();
  take_own_rows(*keys, q);
  float top[2] = {-kInf<float>, -kInf<float>}, total[2] = {0, 0}, out[kDim / 8][4];
  CL_UNROLL for (int c = 0; c < kDim / 8; ++c) out[c][0] = out[c][1] = out[c][2] = out[c][3] = 0;
  for (int64_t j0 = first_tile(a, t0, kSide); j0 <= t0; j0 += kSide) {
    const Sight seen = sight(a, spans, b, t0, j0);
    if (seen == Sight::none) continue;
    sync_block();  // the tiles may still be read
    load_rounded<kDim, 2>({keys_from(a, a.k, b, kv_head, j0), keys_from(a, a.v, b, kv_head, j0)},
                          {keys, values});
    sync_block();
    float p[kSide / 8][4];
    dot_products(q, *keys, 0, p);
    const float unit = to_scores<false>(a, seen, b, t0, j0, p);
    CL_UNROLL for (int r = 0; r < 2; ++r) {
      float now = p[0][2 * r];
      CL_UNROLL for (int n = 0; n < kSide / 8; ++n) {
        now = std::fmax(now, std::fmax(p[n][2 * r], p[n][2 * r + 1]));
      }
      now = std::fmax(top[r], row_max(now) * unit);
      const float from = now == -kInf<float> ? 0.0f : now;  // -inf - -inf would be NaN
      const float shrink = fast_exp2(top[r] - from);
      top[r] = now;
      total[r] *= shrink;  // of this lane's columns
      CL_UNROLL for (int n = 0; n < kSide / 8; ++n) {
        CL_UNROLL for (int i = 2 * r; i < 2 * r + 2; ++i) {
          p[n][i] = fast_exp2(p[n][i] * unit - from);
          total[r] += p[n][i];
        }
      }
      CL_UNROLL for (int c = 0; c < kDim / 8; ++c) {
        out[c][2 * r] *= shrink;
        out[c][2 * r + 1] *= shrink;
      }
    }
    add_rows(p, *values, 0, out);
  }
  const float sums[2] = {row_sum(total[0]), row_sum(total[1])};  // by all lanes, before some are done
  CL_UNROLL for (int r = 0; r < 2; ++r) {
    const float sum = sums[r], inverse = sum == 0 ? 0.0f : 1 / sum;
    const int64_t t = t0 + own_row(2 * r);
    if (t >= a.length) continue;
    if (lane() % 4 == 0)
      a.lse[bh * a.length + t] = sum == 0 ? -kInf<float> : (top[r] + std::log2(sum)) * kLn2;
    float* row = a.out + ((b * a.length + t) * a.heads + head) * a.head_dim;
    CL_UNROLL for (int c = 0; c < kDim / 8; ++c) {
      CL_UNROLL for (int i = 2 * r; i < 2 * r + 2; ++i) {
        if (own_column(c, i) < a.head_dim) row[own_column(c, i)] = sum == 0 ? 0.0f : out[c][i] * inverse;
      }
    }
  }
}

// to += factor · sum of own rows.
template <int kDim>
CL_DEVICE void add_own_rows(const float (&sum)[kDim / 8][4], float factor, const GlobalRows<float>& to) {
  CL_UNROLL for (int c = 0; c < kDim / 8; ++c) {
    CL_UNROLL for (int i = 0; i < 4; ++i) {
      if (own_row(i) < to.rows && own_column(c, i) < to.dim)
        to.data[own_row(i) * to.stride + own_column(c, i)] += factor * sum[c][i];
    }
  }
}

// Of a tile's columns, how many are alive at once backward, in eights: as registers allow.
template <int kDim>
constexpr int kPart = kDim > 64 ? 2 : 4;

// A block: 64 rows of one head. `dots` (B, H, T) holds sum_j p_j dp_j = out · dout of each row.
template <int kDim>
CL_KERNEL_OF(kThreads, kBackwardBlocks<kDim>)
attention_bf16_dq_kernel(AttentionArgs<float> a, AttentionGrads<float> g, const float* dots,
                         const TileSpan* spans) {
  CL_SHARED(RoundedTile<kDim>, keys, 1);
  CL_SHARED(RoundedTile<kDim>, values, 1);
  const int64_t bh = block() % (a.batch * a.heads), b = bh / a.heads, head = bh % a.heads;
  const int64_t t0 = ((a.length - 1) / kSide - block() / (a.batch * a.heads)) * kSide;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  uint32_t q[kDim / 16][4], dout[kDim / 16][4];
  load_rounded<kDim, 2>({queries_from(a, a.q, b, head, t0), queries_from(a, g.dout, b, head, t0)},
                        {keys, values});
  sync_block();
  take_own_rows(*keys, q);
  take_own_rows(*values, dout);
  float lse[2], dot[2], dq[kDim / 8][4];
  CL_UNROLL for (int r = 0; r < 2; ++r) {
    const int64_t t = t0 + own_row(2 * r);
    lse[r] = t < a.length ? row_lse(a, bh * a.length + t) : 0.0f;
    dot[r] = t < a.length ? dots[bh * a.length + t] : 0.0f;
  }
  CL_UNROLL for (int c = 0; c < kDim / 8; ++c) dq[c][0] = dq[c][1] = dq[c][2] = dq[c][3] = 0;
  for (int64_t j0 = first_tile(a, t0, kSide); j0 <= t0; j0 += kSide) {
    const Sight seen = sight(a, spans, b, t0, j0);
    if (seen == Sight::none) continue;
    sync_block();  // the tiles may still be read
    load_rounded<kDim, 2>({keys_from(a, a.k, b, kv_head, j0), keys_from(a, a.v, b, kv_head, j0)},
                          {keys, values});
    sync_block();
    for (int first = 0; first < kSide; first += 8 * kPart<kDim>) {
      float p[kPart<kDim>][4], ds[kPart<kDim>][4];
      dot_products(q, *keys, first, p);
      dot_products(dout, *values, first, ds);
      const float unit = to_scores<false>(a, seen, b, t0, j0 + first, p);
      CL_UNROLL for (int n = 0; n < kPart<kDim>; ++n) {
        CL_UNROLL for (int i = 0; i < 4; ++i) {
          ds[n][i] = fast_exp2(p[n][i] * unit - lse[i / 2]) * (ds[n][i] - dot[i / 2]);
        }
      }
      add_rows(ds, *keys, first, dq);
    }
  }
  add_own_rows<kDim>(dq, a.scale, queries_from(a, g.dq, b, head, t0));
}

// A block: 64 keys of one kv head, those seen by most first. The query heads that share it are added in
// order.
template <int kDim>
CL_KERNEL_OF(kThreads, kBackwardBlocks<kDim>)
attention_bf16_dkv_kernel(AttentionArgs<float> a, AttentionGrads<float> g, const float* dots,
                          const TileSpan* spans) {
  CL_SHARED(RoundedTile<kDim>, queries, 1);
  CL_SHARED(RoundedTile<kDim>, douts, 1);
  CL_SHARED(float, lse, kSide);
  CL_SHARED(float, dot, kSide);
  const int64_t bh = block() % (a.batch * a.kv_heads), b = bh / a.kv_heads, kv_head = bh % a.kv_heads;
  const int64_t j0 = block() / (a.batch * a.kv_heads) * kSide, group = a.heads / a.kv_heads;
  const int64_t t_end = a.window > 0 ? minimum(a.length, j0 + kSide - 1 + a.window) : a.length;
  uint32_t k[kDim / 16][4], v[kDim / 16][4];
  load_rounded<kDim, 2>({keys_from(a, a.k, b, kv_head, j0), keys_from(a, a.v, b, kv_head, j0)},
                        {queries, douts});
  sync_block();
  take_own_rows(*queries, k);
  take_own_rows(*douts, v);
  float dk[kDim / 8][4], dv[kDim / 8][4];
  CL_UNROLL for (int c = 0; c < kDim / 8; ++c) {
    CL_UNROLL for (int i = 0; i < 4; ++i) dk[c][i] = dv[c][i] = 0;
  }
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (int64_t t0 = j0; t0 < t_end; t0 += kSide) {
      const Sight seen = sight(a, spans, b, t0, j0);
      if (seen == Sight::none) continue;
      sync_block();  // the tiles may still be read
      load_rounded<kDim, 2>({queries_from(a, a.q, b, head, t0), queries_from(a, g.dout, b, head, t0)},
                            {queries, douts});
      if (thread() < kSide) {
        const int64_t t = t0 + thread(), at = (b * a.heads + head) * a.length + t;
        lse[thread()] = t < a.length ? row_lse(a, at) : 0.0f;
        dot[thread()] = t < a.length ? dots[at] : 0.0f;
      }
      sync_block();
      for (int first = 0; first < kSide; first += 8 * kPart<kDim>) {
        float p[kPart<kDim>][4], ds[kPart<kDim>][4];
        dot_products(k, *queries, first, p);
        dot_products(v, *douts, first, ds);
        const float unit = to_scores<true>(a, seen, b, j0, t0 + first, p);
        CL_UNROLL for (int n = 0; n < kPart<kDim>; ++n) {
          CL_UNROLL for (int i = 0; i < 4; ++i) {
            const int t = first + own_column(n, i);
            p[n][i] = fast_exp2(p[n][i] * unit - lse[t]);
            ds[n][i] = p[n][i] * (ds[n][i] - dot[t]);
          }
        }
        if (g.dv) add_rows(p, *douts, first, dv);
        if (g.dk) add_rows(ds, *queries, first, dk);
      }
    }
  if (g.dk) add_own_rows<kDim>(dk, a.scale, keys_from(a, g.dk, b, kv_head, j0));
  if (g.dv) add_own_rows<kDim>(dv, 1, keys_from(a, g.dv, b, kv_head, j0));
}

// Only heads of some sizes go through tensor cores; float32 rows are read 16 bytes at a time.
template <class T>
bool on_tensor_cores(const AttentionArgs<T>& a, const T* dout = nullptr) {
  if constexpr (std::is_same_v<T, float>)
    return precision() == Precision::bf16 && a.head_dim <= 128 && a.head_dim % 4 == 0 && is_aligned(a.q) &&
           is_aligned(a.k) && is_aligned(a.v) && is_aligned(dout);
  return false;
}

// use(std::integral_constant<int, kDim>) for the width of tiles that hold a head.
template <class Use>
void with_tile_width(int64_t head_dim, Use&& use) {
  if (head_dim <= 32) return use(std::integral_constant<int, 32>());
  if (head_dim <= 64) return use(std::integral_constant<int, 64>());
  return use(std::integral_constant<int, 128>());
}

inline void attention_bf16(const AttentionArgs<float>& a) {
  Workspace workspace;
  const TileSpan* spans = tile_spans(a, workspace);
  with_tile_width(a.head_dim, [&](auto dim) {
    launch({a.batch * a.heads * ceil_div(a.length, kSide), kThreads}, attention_bf16_kernel<dim()>, a, spans);
  });
}

inline void attention_bf16_backward(const AttentionArgs<float>& a, const AttentionGrads<float>& g,
                                    const float* dots) {
  Workspace workspace;
  const TileSpan* spans = tile_spans(a, workspace);
  with_tile_width(a.head_dim, [&](auto dim) {
    const int64_t tiles = a.batch * ceil_div(a.length, kSide);
    if (g.dq) launch({tiles * a.heads, kThreads}, attention_bf16_dq_kernel<dim()>, a, g, dots, spans);
    if (g.dk || g.dv)
      launch({tiles * a.kv_heads, kThreads}, attention_bf16_dkv_kernel<dim()>, a, g, dots, spans);
  });
}

}  // namespace copylab::cuda
