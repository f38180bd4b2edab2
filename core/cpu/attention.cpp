// Causal self-attention on the CPU: blocks of rows, work only below the diagonal and inside the window, and
// no (T, T) array kept: backward recomputes the probabilities from the log-sum-exp of each row.
#include <algorithm>
#include <cmath>

#include "core/cpu/blocks.h"
#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"
#include "core/cpu/scratch.h"

namespace copylab::cpu {
namespace {

constexpr int64_t kRows = 16;       // rows of scores that are alive at once
constexpr int64_t kTaskRows = 256;  // rows of one forward task; its keys are packed once

struct Forward;  // tags of scratch()
struct Backward;

// Columns of a block of rows, counted from a first key that is a multiple of the vector length.
struct Columns {
  int64_t begin, end;  // both multiples of the vector length
};

// First key that row t sees through the window.
template <class T>
int64_t first_key(const AttentionArgs<T>& a, int64_t t) {
  return a.window > 0 ? std::max<int64_t>(0, t - a.window + 1) : 0;
}

template <class T>
Columns visible_columns(const AttentionArgs<T>& a, int64_t row_begin, int64_t row_end, int64_t key_begin) {
  return {aligned_down<T>(first_key(a, row_begin) - key_begin), padded<T>(row_end - key_begin)};
}

// Adds the bias to the scores of row t and puts -inf where the row may not look. s[0] is key `key`; the n
// columns include every key that the row sees.
template <class T>
void mask_row(const AttentionArgs<T>& a, int64_t b, int64_t t, int64_t key, int64_t n, T* s) {
  const int64_t len = a.length;
  if (a.marked && !a.marked[b * len + t]) {
    std::fill(s, s + n, kMinusInf<T>);
    return;
  }
  const int64_t begin = std::clamp<int64_t>(first_key(a, t) - key, 0, n);
  const int64_t end = std::clamp<int64_t>(t + 1 - key, 0, n);
  std::fill(s, s + begin, kMinusInf<T>);
  if (a.bias) {
    const T* bias = a.bias + t * len + key;
    for (int64_t j = begin; j < end; ++j) s[j] += bias[j];
  }
  if (a.allowed) {
    const uint8_t* allowed = a.allowed + (b * len + t) * len + key;
    for (int64_t j = begin; j < end; ++j) s[j] = allowed[j] ? s[j] : kMinusInf<T>;
  }
  if (a.marked) {
    const uint8_t* marked = a.marked + b * len + key;
    for (int64_t j = begin; j < end; ++j) s[j] = marked[j] ? s[j] : kMinusInf<T>;
  }
  if (a.segment) {
    const int32_t* segment = a.segment + b * len + key;
    const int32_t own = a.segment[b * len + t];
    for (int64_t j = begin; j < end; ++j) s[j] = segment[j] == own ? s[j] : kMinusInf<T>;
  }
  std::fill(s + end, s + n, kMinusInf<T>);
}

// Rows row_begin..row_end-1 of one head of one sequence.
template <class T>
void forward_rows(const AttentionArgs<T>& a, int64_t b, int64_t head, int64_t row_begin, int64_t row_end) {
  const int64_t len = a.length, d = a.head_dim, dp = padded<T>(d);
  const int64_t q_stride = a.heads * d, kv_stride = a.kv_heads * d;
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  const int64_t key_begin = aligned_down<T>(first_key(a, row_begin)), keys = row_end - key_begin;
  const int64_t kp = padded<T>(keys);
  const int64_t kv_offset = (b * len + key_begin) * kv_stride + kv_head * d;
  const T* q = a.q + b * len * q_stride + head * d;
  T* out = a.out + b * len * q_stride + head * d;

  Pieces<T> workspace(scratch<Forward, T>(d * kp + kp * dp + kRows * (kp + 2 * dp)));
  T* keys_t = workspace.take(d * kp);       // (d, kp)
  T* values = workspace.take(kp * dp);      // (kp, dp)
  T* scores = workspace.take(kRows * kp);   // (kRows, kp)
  T* queries = workspace.take(kRows * dp);  // (kRows, dp)
  T* outputs = workspace.take(kRows * dp);  // (kRows, dp)
  pack_transposed(a.k + kv_offset, kv_stride, keys, d, keys_t);
  pack(a.v + kv_offset, kv_stride, keys, d, T(1), kp, values);

  for (int64_t t0 = row_begin; t0 < row_end; t0 += kRows) {
    const int64_t rows = std::min(kRows, row_end - t0);
    const Columns c = visible_columns(a, t0, t0 + rows, key_begin);
    const int64_t n = c.end - c.begin;
    pack(q + t0 * q_stride, q_stride, rows, d, a.scale, kRows, queries);
    block_product<T>(kRows, n, d, {queries, dp, 1}, keys_t + c.begin, kp, scores, kp, false);
    T inverse_sum[kRows] = {}, sums[kRows] = {}, maxima[kRows], logs[kRows];
    for (int64_t r = 0; r < kRows; ++r) {
      T* s = scores + r * kp;
      maxima[r] = kMinusInf<T>;
      if (r < rows) {
        mask_row(a, b, t0 + r, key_begin + c.begin, n, s);
        maxima[r] = row_max(s, n);
      }
      if (maxima[r] == kMinusInf<T>) {
        std::fill(s, s + n, T(0));
      } else {
        sums[r] = row_exp(s, n, maxima[r]);
        inverse_sum[r] = 1 / sums[r];
      }
    }
    simd::map(sums, logs, kRows, [](simd::Vec<T> x) { return simd::log(x); });
    for (int64_t r = 0; r < rows; ++r) a.lse[(b * a.heads + head) * len + t0 + r] = maxima[r] + logs[r];
    block_product<T>(kRows, dp, n, {scores, kp, 1}, values + c.begin * dp, dp, outputs, dp, false);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < d; ++i) out[(t0 + r) * q_stride + i] = outputs[r * dp + i] * inverse_sum[r];

    if (a.probs)
      for (int64_t r = 0; r < rows; ++r) {
        T* probs = a.probs + ((b * a.heads + head) * len + t0 + r) * len;
        std::fill(probs, probs + len, T(0));
        const int64_t key = key_begin + c.begin;
        for (int64_t j = 0; j < std::min(n, len - key); ++j)
          probs[key + j] = scores[r * kp + j] * inverse_sum[r];
      }
  }
}

template <class T>
int64_t visible_pairs(const AttentionArgs<T>& a) {
  const int64_t span = a.window > 0 ? std::min(a.window, a.length) : (a.length + 1) / 2;
  return a.batch * a.heads * a.length * span;
}

template <class T>
void attention(const AttentionArgs<T>& a) {
  const int64_t chunks = (a.length + kTaskRows - 1) / kTaskRows;
  parallel_for(a.batch * a.heads * chunks, visible_pairs(a) * a.head_dim, [&](int64_t task) {
    const int64_t begin = task % chunks * kTaskRows, bh = task / chunks;
    forward_rows(a, bh / a.heads, bh % a.heads, begin, std::min(a.length, begin + kTaskRows));
  });
}

// All gradients of one key/value head of one sequence. The query heads that share it are added in order.
template <class T>
void backward_head(const AttentionArgs<T>& a, const AttentionGrads<T>& g, int64_t b, int64_t kv_head) {
  constexpr int64_t kColumns = 128;  // columns of scores alive at once, so that a block stays in the L1 cache
  const int64_t len = a.length, d = a.head_dim, dp = padded<T>(d), kp = padded<T>(len);
  const int64_t q_stride = a.heads * d, kv_stride = a.kv_heads * d, group = a.heads / a.kv_heads;
  const int64_t kv_offset = b * len * kv_stride + kv_head * d;

  Pieces<T> workspace(scratch<Backward, T>(2 * d * kp + 3 * kp * dp + 2 * kRows * kColumns + 3 * kRows * dp));
  T* keys_t = workspace.take(d * kp);             // (d, kp)
  T* values_t = workspace.take(d * kp);           // (d, kp)
  T* keys = workspace.take(kp * dp);              // (kp, dp)
  T* dkeys = workspace.take(kp * dp);             // (kp, dp)
  T* dvalues = workspace.take(kp * dp);           // (kp, dp)
  T* probs = workspace.take(kRows * kColumns);    // (kRows, kColumns)
  T* dscores = workspace.take(kRows * kColumns);  // (kRows, kColumns)
  T* queries = workspace.take(kRows * dp);        // (kRows, dp)
  T* douts = workspace.take(kRows * dp);          // (kRows, dp)
  T* dqueries = workspace.take(kRows * dp);       // (kRows, dp)
  pack_transposed(a.k + kv_offset, kv_stride, len, d, keys_t);
  pack_transposed(a.v + kv_offset, kv_stride, len, d, values_t);
  pack(a.k + kv_offset, kv_stride, len, d, T(1), kp, keys);
  std::fill(dkeys, dkeys + kp * dp, T(0));
  std::fill(dvalues, dvalues + kp * dp, T(0));

  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const int64_t offset = b * len * q_stride + head * d;
    const T* lse = a.lse + (b * a.heads + head) * len;
    for (int64_t t0 = 0; t0 < len; t0 += kRows) {
      const int64_t rows = std::min(kRows, len - t0);
      const Columns visible = visible_columns(a, t0, t0 + rows, 0);
      const int64_t at = offset + t0 * q_stride;
      pack(a.q + at, q_stride, rows, d, a.scale, kRows, queries);
      pack(g.dout + at, q_stride, rows, d, T(1), kRows, douts);
      T row_dot[kRows] = {};  // sum_j p_j dp_j = out · dout
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < d; ++i)
          row_dot[r] += a.out[at + r * q_stride + i] * g.dout[at + r * q_stride + i];

      for (int64_t c = visible.begin; c < visible.end; c += kColumns) {
        const int64_t n = std::min(kColumns, visible.end - c);
        block_product<T>(kRows, n, d, {queries, dp, 1}, keys_t + c, kp, probs, kColumns, false);
        block_product<T>(kRows, n, d, {douts, dp, 1}, values_t + c, kp, dscores, kColumns, false);
        for (int64_t r = 0; r < kRows; ++r) {
          T *p = probs + r * kColumns, *ds = dscores + r * kColumns;
          if (r >= rows || lse[t0 + r] == kMinusInf<T>) {
            std::fill(p, p + n, T(0));
            std::fill(ds, ds + n, T(0));
            continue;
          }
          mask_row(a, b, t0 + r, c, n, p);
          row_exp(p, n, lse[t0 + r]);
          for (int64_t j = 0; j < n; ++j) ds[j] = p[j] * (ds[j] - row_dot[r]);
        }
        // `queries` carry the scale already; dq gets it below.
        block_product<T>(kRows, dp, n, {dscores, kColumns, 1}, keys + c * dp, dp, dqueries, dp,
                         c > visible.begin);
        block_product<T>(n, dp, kRows, {dscores, 1, kColumns}, queries, dp, dkeys + c * dp, dp, true);
        block_product<T>(n, dp, kRows, {probs, 1, kColumns}, douts, dp, dvalues + c * dp, dp, true);
      }
      if (g.dq) add_packed(dqueries, rows, d, a.scale, g.dq + at, q_stride);
    }
  }
  if (g.dk) add_packed(dkeys, len, d, T(1), g.dk + kv_offset, kv_stride);
  if (g.dv) add_packed(dvalues, len, d, T(1), g.dv + kv_offset, kv_stride);
}

template <class T>
void attention_backward(const AttentionArgs<T>& a, const AttentionGrads<T>& g) {
  parallel_for(a.batch * a.kv_heads, 3 * visible_pairs(a) * a.head_dim,
               [&](int64_t task) { backward_head(a, g, task / a.kv_heads, task % a.kv_heads); });
}

}  // namespace

template <class T>
void fill_attention(KernelTable<T>& k) {
  k.attention = attention<T>;
  k.attention_backward = attention_backward<T>;
}
template void fill_attention(KernelTable<float>&);
template void fill_attention(KernelTable<double>&);

}  // namespace copylab::cpu
