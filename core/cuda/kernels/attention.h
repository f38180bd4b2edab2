// Causal self-attention: tiles of 32 queries by 32 keys that live in registers and shared memory only, with
// an online softmax forward, and probabilities computed again from each row's log-sum-exp backward. Tiles
// outside the window or above the diagonal are not visited. No (T, T) array anywhere, but for a probe that
// asks.
#pragma once

#include "core/cuda/kernels/attention_bf16.h"
#include "core/cuda/kernels/attention_mask.h"
#include "core/cuda/kernels/map.h"
#include "core/kernels.h"

namespace copylab::cuda {

constexpr int kTile = 32;               // rows and columns of a tile
constexpr int kOwn = kTile / kWarps;    // rows of one warp; each of its lanes has one column
constexpr int kTileStride = kTile + 1;  // in shared memory: a column's numbers lie in different banks
constexpr int kTileSize = kTile * kTileStride;

// Rows of numbers in global memory, of which tiles are made.
template <class T>
struct TileRows {
  const T* data;   // row 0
  int64_t stride;  // from row to row
  int64_t rows;    // that exist; beyond them are zeros
  T factor;        // on every number
};

// Columns first..first+31 of 32 rows.
template <class T>
CL_DEVICE void load_tile(const TileRows<T>& x, int64_t first, int64_t dim, T* tile) {
  for (int i = thread(); i < kTile * kTile; i += threads()) {
    const int64_t row = i / kTile, column = first + i % kTile;
    tile[row * kTileStride + i % kTile] =
        row < x.rows && column < dim ? x.factor * x.data[row * x.stride + column] : T(0);
  }
}

// s[r] = the dot product of row kOwn·warp + r of `own` and row `lane` of `other`.
template <class T>
CL_DEVICE void tile_products(const TileRows<T>& own, const TileRows<T>& other, int64_t dim, T* tile_own,
                             T* tile_other, T (&s)[kOwn]) {
  CL_UNROLL for (int r = 0; r < kOwn; ++r) s[r] = 0;
  for (int64_t first = 0; first < dim; first += kTile) {
    sync_block();  // the tiles may still be read
    load_tile(own, first, dim, tile_own);
    load_tile(other, first, dim, tile_other);
    sync_block();
    for (int c = 0; c < kTile; ++c) {
      const T x = tile_other[lane() * kTileStride + c];
      CL_UNROLL for (int r = 0; r < kOwn; ++r) s[r] += tile_own[(kOwn * warp() + r) * kTileStride + c] * x;
    }
  }
}

// sum[r][c] += over j of p_j[r] · x[j][first + 32c + lane], where p_j is what lane j has.
template <int kChunks, class T>
CL_DEVICE void add_products(const T (&p)[kOwn], const TileRows<T>& x, int64_t first, int64_t dim, T* tile_p,
                            T* tile_x, T (&sum)[kOwn][kChunks]) {
  sync_block();  // tile_p may still be read
  CL_UNROLL for (int r = 0; r < kOwn; ++r) tile_p[(kOwn * warp() + r) * kTileStride + lane()] = p[r];
  CL_UNROLL for (int c = 0; c < kChunks; ++c) {
    if (first + c * kTile >= dim) continue;
    sync_block();
    load_tile(x, first + c * kTile, dim, tile_x);
    sync_block();
    for (int j = 0; j < kTile; ++j) {
      const T value = tile_x[j * kTileStride + lane()];
      CL_UNROLL for (int r = 0; r < kOwn; ++r) sum[r][c] +=
          tile_p[(kOwn * warp() + r) * kTileStride + j] * value;
    }
  }
}

// Where the parts of one block of work lie. Queries t0.. of head `head` of sequence `b`, or keys of a kv
// head.
template <class T>
CL_DEVICE TileRows<T> query_rows(const AttentionArgs<T>& a, const T* x, int64_t b, int64_t head, int64_t t,
                                 T factor) {
  return {x + ((b * a.length + t) * a.heads + head) * a.head_dim, a.heads * a.head_dim, a.length - t, factor};
}
template <class T>
CL_DEVICE TileRows<T> key_rows(const AttentionArgs<T>& a, const T* x, int64_t b, int64_t kv_head, int64_t t) {
  return {x + ((b * a.length + t) * a.kv_heads + kv_head) * a.head_dim, a.kv_heads * a.head_dim, a.length - t,
          T(1)};
}

// A block: 32 rows of one head and kChunks · 32 columns of the output.
template <int kChunks, class T>
CL_KERNEL attention_kernel(AttentionArgs<T> a) {
  CL_SHARED(T, tile_q, kTileSize);
  CL_SHARED(T, tile_k, kTileSize);
  CL_SHARED(T, tile_p, kTileSize);
  const int64_t tiles = (a.length + kTile - 1) / kTile, groups = (a.head_dim - 1) / (kChunks * kTile) + 1;
  const int64_t first = block() % groups * kChunks * kTile, t0 = block() / groups % tiles * kTile;
  const int64_t bh = block() / groups / tiles, b = bh / a.heads, head = bh % a.heads;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  T top[kOwn], total_p[kOwn], out[kOwn][kChunks];
  CL_UNROLL for (int r = 0; r < kOwn; ++r) {
    top[r] = -kInf<T>;
    total_p[r] = 0;
    CL_UNROLL for (int c = 0; c < kChunks; ++c) out[r][c] = 0;
  }
  for (int64_t j0 = first_tile(a, t0, kTile); j0 < minimum(a.length, t0 + kTile); j0 += kTile) {
    T p[kOwn];
    tile_products(query_rows(a, a.q, b, head, t0, a.scale), key_rows(a, a.k, b, kv_head, j0), a.head_dim,
                  tile_q, tile_k, p);
    CL_UNROLL for (int r = 0; r < kOwn; ++r) {
      const T score = masked(a, b, t0 + kOwn * warp() + r, j0 + lane(), p[r]);
      const T now = maximum(top[r], warp_max(score));
      const T shrink = top[r] == -kInf<T> ? T(0) : std::exp(top[r] - now);
      p[r] = score == -kInf<T> ? T(0) : std::exp(score - now);
      top[r] = now;
      total_p[r] = total_p[r] * shrink + warp_sum(p[r]);
      CL_UNROLL for (int c = 0; c < kChunks; ++c) out[r][c] *= shrink;
    }
    add_products(p, key_rows(a, a.v, b, kv_head, j0), first, a.head_dim, tile_p, tile_k, out);
  }
  CL_UNROLL for (int r = 0; r < kOwn; ++r) {
    const int64_t t = t0 + kOwn * warp() + r;
    if (t >= a.length) continue;
    if (lane() == 0 && first == 0)
      a.lse[bh * a.length + t] = total_p[r] == 0 ? -kInf<T> : top[r] + std::log(total_p[r]);
    CL_UNROLL for (int c = 0; c < kChunks; ++c) {
      const int64_t column = first + c * kTile + lane();
      if (column < a.head_dim)
        a.out[((b * a.length + t) * a.heads + head) * a.head_dim + column] =
            total_p[r] == 0 ? T(0) : out[r][c] / total_p[r];
    }
  }
}

// p = exp(score - lse) for row t and key j, as forward.
template <class T>
CL_DEVICE T probability(const AttentionArgs<T>& a, int64_t b, int64_t head, int64_t t, int64_t j, T score) {
  score = masked(a, b, t, j, score);
  return score == -kInf<T> ? T(0) : std::exp(score - a.lse[(b * a.heads + head) * a.length + t]);
}

// `dots` (B, H, T) holds sum_j p_j dp_j = out · dout of each row.
template <int kChunks, class T>
CL_KERNEL attention_dq_kernel(AttentionArgs<T> a, AttentionGrads<T> g, const T* dots) {
  CL_SHARED(T, tile_q, kTileSize);
  CL_SHARED(T, tile_k, kTileSize);
  CL_SHARED(T, tile_p, kTileSize);
  const int64_t tiles = (a.length + kTile - 1) / kTile, groups = (a.head_dim - 1) / (kChunks * kTile) + 1;
  const int64_t first = block() % groups * kChunks * kTile, t0 = block() / groups % tiles * kTile;
  const int64_t bh = block() / groups / tiles, b = bh / a.heads, head = bh % a.heads;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  T dq[kOwn][kChunks];
  CL_UNROLL for (int r = 0; r < kOwn; ++r) {
    CL_UNROLL for (int c = 0; c < kChunks; ++c) dq[r][c] = 0;
  }
  for (int64_t j0 = first_tile(a, t0, kTile); j0 < minimum(a.length, t0 + kTile); j0 += kTile) {
    T p[kOwn], ds[kOwn];
    tile_products(query_rows(a, a.q, b, head, t0, a.scale), key_rows(a, a.k, b, kv_head, j0), a.head_dim,
                  tile_q, tile_k, p);
    tile_products(query_rows(a, g.dout, b, head, t0, T(1)), key_rows(a, a.v, b, kv_head, j0), a.head_dim,
                  tile_q, tile_k, ds);
    CL_UNROLL for (int r = 0; r < kOwn; ++r) {
      const int64_t t = t0 + kOwn * warp() + r;
      const T weight = probability(a, b, head, t, j0 + lane(), p[r]);
      ds[r] = weight == 0 ? T(0) : weight * (ds[r] - dots[bh * a.length + t]);
    }
    add_products(ds, key_rows(a, a.k, b, kv_head, j0), first, a.head_dim, tile_p, tile_k, dq);
  }
  CL_UNROLL for (int r = 0; r < kOwn; ++r) {
    const int64_t t = t0 + kOwn * warp() + r;
    CL_UNROLL for (int c = 0; c < kChunks; ++c) {
      const int64_t column = first + c * kTile + lane();
      if (t < a.length && column < a.head_dim)
        g.dq[((b * a.length + t) * a.heads + head) * a.head_dim + column] += a.scale * dq[r][c];
    }
  }
}

// A block: 32 keys of one kv head. The query heads that share it are added in order.
template <int kChunks, class T>
CL_KERNEL attention_dkv_kernel(AttentionArgs<T> a, AttentionGrads<T> g, const T* dots) {
  CL_SHARED(T, tile_k, kTileSize);
  CL_SHARED(T, tile_q, kTileSize);
  CL_SHARED(T, tile_p, kTileSize);
  const int64_t tiles = (a.length + kTile - 1) / kTile, groups = (a.head_dim - 1) / (kChunks * kTile) + 1;
  const int64_t first = block() % groups * kChunks * kTile, j0 = block() / groups % tiles * kTile;
  const int64_t bh = block() / groups / tiles, b = bh / a.kv_heads, kv_head = bh % a.kv_heads;
  const int64_t group = a.heads / a.kv_heads;
  const int64_t t_end = a.window > 0 ? minimum(a.length, j0 + kTile - 1 + a.window) : a.length;
  T dk[kOwn][kChunks], dv[kOwn][kChunks];
  CL_UNROLL for (int r = 0; r < kOwn; ++r) {
    CL_UNROLL for (int c = 0; c < kChunks; ++c) dk[r][c] = dv[r][c] = 0;
  }
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
    for (int64_t t0 = j0; t0 < t_end; t0 += kTile) {
      const TileRows<T> queries = query_rows(a, a.q, b, head, t0, a.scale);
      const TileRows<T> douts = query_rows(a, g.dout, b, head, t0, T(1));
      T p[kOwn], ds[kOwn];
      tile_products(key_rows(a, a.k, b, kv_head, j0), queries, a.head_dim, tile_k, tile_q, p);
      tile_products(key_rows(a, a.v, b, kv_head, j0), douts, a.head_dim, tile_k, tile_q, ds);
      CL_UNROLL for (int r = 0; r < kOwn; ++r) {
        const int64_t t = t0 + lane(), j = j0 + kOwn * warp() + r;
        p[r] = probability(a, b, head, t, j, p[r]);
        ds[r] = p[r] == 0 ? T(0) : p[r] * (ds[r] - dots[(b * a.heads + head) * a.length + t]);
      }
      if (g.dv) add_products(p, douts, first, a.head_dim, tile_p, tile_q, dv);
      if (g.dk)
        add_products(ds, queries, first, a.head_dim, tile_p, tile_q, dk);  // `queries` carry the scale
    }
  CL_UNROLL for (int r = 0; r < kOwn; ++r) {
    const int64_t j = j0 + kOwn * warp() + r;
    CL_UNROLL for (int c = 0; c < kChunks; ++c) {
      const int64_t column = first + c * kTile + lane();
      if (j >= a.length || column >= a.head_dim) continue;
      const int64_t at = ((b * a.length + j) * a.kv_heads + kv_head) * a.head_dim + column;
      if (g.dk) g.dk[at] += dk[r][c];
      if (g.dv) g.dv[at] += dv[r][c];
    }
  }
}

// With `rounds`, of operands as tensor cores get them.
template <class T>
void attention_probs(const AttentionArgs<T>& args, bool rounds) {
  const AttentionArgs<T> a = args;
  map(
      a.batch * a.heads * a.length * a.length, CL_LAMBDA(int64_t i) {
        const int64_t j = i % a.length, t = i / a.length % a.length;
        const int64_t head = i / a.length / a.length % a.heads, b = i / a.length / a.length / a.heads;
        const T* q = a.q + ((b * a.length + t) * a.heads + head) * a.head_dim;
        const T* k = a.k + ((b * a.length + j) * a.kv_heads + head / (a.heads / a.kv_heads)) * a.head_dim;
        T score = 0;
        for (int64_t c = 0; c < a.head_dim && j <= t; ++c)
          score +=
              rounds ? a.scale * from_bf16(to_bf16(q[c])) * from_bf16(to_bf16(k[c])) : a.scale * q[c] * k[c];
        a.probs[i] = probability(a, b, head, t, j, score);
      });
}

// use(std::integral_constant<int, kChunks>) for the number of 32-column chunks of a block.
template <class Use>
void with_chunks(int64_t head_dim, Use&& use) {
  if (head_dim <= kTile) return use(std::integral_constant<int, 1>());
  if (head_dim <= 2 * kTile) return use(std::integral_constant<int, 2>());
  return use(std::integral_constant<int, 4>());
}

template <class T>
int64_t attention_blocks(const AttentionArgs<T>& a, int64_t heads, int chunks) {
  return a.batch * heads * ceil_div(a.length, kTile) * ceil_div(a.head_dim, chunks * kTile);
}

template <class T>
void attention(const AttentionArgs<T>& a) {
  const bool rounds = on_tensor_cores(a);
  if constexpr (std::is_same_v<T, float>)
    if (rounds) attention_bf16(a);
  if (!rounds)
    with_chunks(a.head_dim, [&](auto chunks) {
      launch({attention_blocks(a, a.heads, chunks), kThreads}, attention_kernel<chunks(), T>, a);
    });
  if (a.probs) attention_probs(a, rounds);
}

template <class T>
void attention_backward(const AttentionArgs<T>& args, const AttentionGrads<T>& grads) {
  const AttentionArgs<T> a = args;
  const AttentionGrads<T> g = grads;
  Workspace workspace;
  T* dots = workspace.take<T>(a.batch * a.heads * a.length);
  map_rows(
      a.batch * a.heads * a.length, CL_LAMBDA(int64_t row) {
        const int64_t t = row % a.length, head = row / a.length % a.heads, b = row / a.length / a.heads;
        const int64_t at = ((b * a.length + t) * a.heads + head) * a.head_dim;
        T dot = 0;
        for (int64_t c = lane(); c < a.head_dim; c += kWarp) dot += a.out[at + c] * g.dout[at + c];
        dot = warp_sum(dot);
        if (lane() == 0) dots[row] = dot;
      });
  if constexpr (std::is_same_v<T, float>)
    if (on_tensor_cores(a, g.dout)) return attention_bf16_backward(a, g, dots);
  with_chunks(a.head_dim, [&](auto chunks) {
    if (g.dq)
      launch({attention_blocks(a, a.heads, chunks), kThreads}, attention_dq_kernel<chunks(), T>, a, g, dots);
    if (g.dk || g.dv)
      launch({attention_blocks(a, a.kv_heads, chunks), kThreads}, attention_dkv_kernel<chunks(), T>, a, g,
             dots);
  });
}

template <class T>
void fill_attention(KernelTable<T>& k) {
  k.attention = attention<T>;
  k.attention_backward = attention_backward<T>;
}

}  // namespace copylab::cuda
