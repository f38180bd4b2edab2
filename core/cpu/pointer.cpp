// Pointer attention of the copy heads on the CPU: blocks of rows, no (T, T) array kept (backward recomputes
// the weights from each row's log-sum-exp), and exact log-masses where the weights themselves underflow.
#include <algorithm>
#include <cmath>

#include "core/cpu/activations.h"
#include "core/cpu/blocks.h"
#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"
#include "core/cpu/scratch.h"

namespace copylab::cpu {
namespace {

constexpr int64_t kRows = 16;  // rows of scores that are alive at once

struct Forward;  // tags of scratch()
struct Backward;
struct KeyGradients;

// Below this log-mass the sum of the matching weights has lost digits to underflow, or is 0.
template <class T>
const T kUnderflow = std::log(std::numeric_limits<T>::min()) + 10;

// Keys of a sequence: those of its memory and of its rows.
template <class T>
int64_t all_keys(const PointerArgs<T>& a) {
  return a.memory + a.length;
}

// The keys that row t may use, without regard to documents and empty ones: first_key .. end_key-1.
template <class T>
int64_t first_key(const PointerArgs<T>& a, int64_t t) {
  return a.window > 0 ? std::max<int64_t>(0, a.memory + t - a.window + 1) : 0;
}
template <class T>
int64_t end_key(const PointerArgs<T>& a, int64_t t) {
  return std::max<int64_t>(0, a.memory + t - a.shift + (a.copy_self ? 1 : 0));
}

// A sequence is cut into chunks of rows, only so far that small batches have work for several threads:
// every chunk packs its keys anew, and has key gradients of its own until they are joined.
template <class T>
int64_t chunk_rows(const PointerArgs<T>& a) {
  constexpr int64_t kTasks = 16, kSmallest = 256;
  const int64_t per_sequence = (kTasks + a.batch - 1) / std::max<int64_t>(1, a.batch);
  return std::max(kSmallest, (a.length + per_sequence - 1) / per_sequence);
}

// One chunk of rows of one sequence with its packed keys.
template <class T>
struct Chunk {
  int64_t b, row_begin, row_end;
  int64_t key_begin, key_end;  // what its rows may see; the first is a multiple of the vector length

  Chunk(const PointerArgs<T>& a, int64_t sequence, int64_t index)
      : b(sequence),
        row_begin(index * chunk_rows(a)),
        row_end(std::min(a.length, row_begin + chunk_rows(a))),
        key_begin(aligned_down<T>(first_key(a, row_begin))),
        key_end(std::max(key_begin, end_key(a, row_end - 1))) {}
  int64_t keys() const { return key_end - key_begin; }
};

// Columns of a block of rows in the packed keys of its chunk, in whole vectors.
struct Columns {
  int64_t begin, end;
};
template <class T>
Columns visible_columns(const PointerArgs<T>& a, const Chunk<T>& chunk, int64_t row, int64_t rows) {
  const int64_t begin = aligned_down<T>(first_key(a, row) - chunk.key_begin);
  const int64_t end = padded<T>(std::max<int64_t>(0, end_key(a, row + rows - 1) - chunk.key_begin));
  return {begin, std::max(begin, end)};
}

// Key `key` is not empty and belongs to the document of row t.
template <class T>
bool usable(const PointerArgs<T>& a, int64_t b, int64_t t, int64_t key) {
  const int64_t first = b * all_keys(a);
  return a.tokens[first + key] >= 0 &&
         (!a.segment || a.segment[first + a.memory + t] == a.segment[first + key]);
}

// The part of scores s[0..n), s[0] being key `key`, that row t may use; the rest is set to -inf.
struct Span {
  int64_t begin, end;
};
template <class T>
Span mask_row(const PointerArgs<T>& a, int64_t b, int64_t t, int64_t key, int64_t n, T* s) {
  const int64_t begin = std::clamp<int64_t>(first_key(a, t) - key, 0, n);
  const int64_t end = std::clamp<int64_t>(end_key(a, t) - key, begin, n);
  std::fill(s, s + begin, kMinusInf<T>);
  std::fill(s + end, s + n, kMinusInf<T>);
  if (a.segment) {
    const int32_t* segment = a.segment + b * all_keys(a) + key;
    const int32_t own = a.segment[b * all_keys(a) + a.memory + t];
    for (int64_t j = begin; j < end; ++j) s[j] = segment[j] == own ? s[j] : kMinusInf<T>;
  }
  if (a.memory > 0) {  // without one, no key is empty
    const int32_t* tokens = a.tokens + b * all_keys(a) + key;
    for (int64_t j = begin; j < end; ++j) s[j] = tokens[j] >= 0 ? s[j] : kMinusInf<T>;
  }
  return {begin, end};
}

// log sum of exp(score - offset) over the matching keys of row t, measured from their own largest score; -inf
// if none match.
template <class T>
T log_sum_matching(const PointerArgs<T>& a, const Chunk<T>& chunk, int64_t t, const T* query, const T* keys_t,
                   T offset) {
  const int64_t kp = padded<T>(chunk.keys());
  const int32_t* tokens = a.tokens + chunk.b * all_keys(a) + a.shift;
  const int32_t target = a.targets[chunk.b * a.length + t];
  T largest = kMinusInf<T>, sum = 0;
  for (int64_t j = first_key(a, t); j < end_key(a, t); ++j) {
    if (tokens[j] != target || !usable(a, chunk.b, t, j)) continue;
    T score = 0;
    for (int64_t p = 0; p < a.dim; ++p) score += query[p] * keys_t[p * kp + j - chunk.key_begin];
    if (score > largest) {
      sum = sum * std::exp(largest - score) + 1;
      largest = score;
    } else {
      sum += std::exp(score - largest);
    }
  }
  return largest == kMinusInf<T> ? largest : (largest - offset) + std::log(sum);
}

// Of each row of a block: whether it has a source, and its sums of exp(score - offset) without the sink's.
template <class T>
struct RowSums {
  bool any[kRows];
  T sink[kRows] = {}, offset[kRows] = {}, all[kRows] = {}, matching[kRows] = {};
};

template <class T>
void forward_chunk(const PointerArgs<T>& a, const Chunk<T>& chunk) {
  const int64_t len = a.length, d = a.dim, dp = padded<T>(d), kp = padded<T>(chunk.keys());
  Pieces<T> workspace(scratch<Forward, T>(d * kp + kRows * (kp + dp)));
  T* keys_t = workspace.take(d * kp);       // (d, kp)
  T* scores = workspace.take(kRows * kp);   // (kRows, kp)
  T* queries = workspace.take(kRows * dp);  // (kRows, dp)
  const int64_t first_of_all = chunk.b * all_keys(a);
  pack_transposed(a.k + (first_of_all + chunk.key_begin) * d, d, chunk.keys(), d, keys_t);

  for (int64_t t0 = chunk.row_begin; t0 < chunk.row_end; t0 += kRows) {
    const int64_t rows = std::min(kRows, chunk.row_end - t0);
    const Columns c = visible_columns(a, chunk, t0, rows);
    const int64_t n = c.end - c.begin, key = chunk.key_begin + c.begin;
    pack(a.q + (chunk.b * len + t0) * d, d, rows, d, a.scale, kRows, queries);
    block_product<T>(kRows, n, d, {queries, dp, 1}, keys_t + c.begin, kp, scores, kp, false);
    RowSums<T> sums;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = chunk.b * len + t0 + r;
      T* s = scores + r * kp;
      const Span span = mask_row(a, chunk.b, t0 + r, key, n, s);
      T* weights = a.weights ? a.weights + row * all_keys(a) : nullptr;
      if (weights) std::fill(weights, weights + all_keys(a), T(0));
      const T largest = row_max(s, n);
      sums.any[r] = largest > kMinusInf<T>;
      if (!sums.any[r]) continue;
      sums.sink[r] = a.sink ? a.sink[row] : kMinusInf<T>;
      sums.offset[r] = std::max(largest, sums.sink[r]);
      sums.all[r] = row_exp(s, n, sums.offset[r]);
      const int32_t* tokens = a.tokens + first_of_all + key + a.shift;
      const int32_t target = a.targets[row];
      T matching = 0;
#pragma omp simd reduction(+ : matching)
      for (int64_t j = span.begin; j < span.end; ++j) matching += tokens[j] == target ? s[j] : T(0);
      sums.matching[r] = matching;
      if (weights) {
        const T sum = sums.all[r] + std::exp(sums.sink[r] - sums.offset[r]);
        for (int64_t j = span.begin; j < span.end; ++j) weights[key + j + a.shift] = s[j] / sum;
      }
    }
    T log_all[kRows], log_matching[kRows];
    for (int64_t r = 0; r < kRows; r += simd::kLanes<T>) {
      const simd::Vec<T> sink = simd::exp(simd::load(sums.sink + r) - simd::load(sums.offset + r));
      simd::store(log_all + r, simd::log(simd::load(sums.all + r) + sink));
      simd::store(log_matching + r, simd::log(simd::load(sums.matching + r)));
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t t = t0 + r, row = chunk.b * len + t;
      if (!sums.any[r]) {
        a.log_copy[row] = kMinusInf<T>;
        a.log_sink[row] = 0;
        a.lse[row] = a.sink ? a.sink[row] : kMinusInf<T>;
        continue;
      }
      T log_copy = log_matching[r] - log_all[r];
      if (!(log_copy > kUnderflow<T>))
        log_copy = log_sum_matching(a, chunk, t, queries + r * dp, keys_t, sums.offset[r]) - log_all[r];
      a.log_copy[row] = a.targets[row] < 0 ? kMinusInf<T> : log_copy;
      a.log_sink[row] = (sums.sink[r] - sums.offset[r]) - log_all[r];
      a.lse[row] = sums.offset[r] + log_all[r];
    }
  }
}

template <class T>
int64_t visible_pairs(const PointerArgs<T>& a) {
  const int64_t span = a.window > 0 ? std::min(a.window, all_keys(a)) : a.memory + (a.length + 1) / 2;
  return a.batch * a.length * span;
}

template <class T>
void pointer(const PointerArgs<T>& a) {
  const int64_t chunks = (a.length + chunk_rows(a) - 1) / chunk_rows(a);
  parallel_for(a.batch * chunks, visible_pairs(a) * a.dim,
               [&](int64_t task) { forward_chunk(a, Chunk<T>(a, task / chunks, task % chunks)); });
}

// Adds to dq and dsink of the chunk's rows; dkeys (padded(keys), padded(d)) is overwritten.
//
// With a_j = exp(s_j - lse) and matching share m_j = a_j [match] / sum of matching a:
//   ds_j = dlog_copy (m_j - a_j) - dlog_sink a_j,   ds_sink = dlog_sink (1 - a_sink) - dlog_copy a_sink.
template <class T>
void backward_chunk(const PointerArgs<T>& a, const PointerGrads<T>& g, const Chunk<T>& chunk, T* dkeys) {
  constexpr int64_t kColumns = 128;  // columns of scores alive at once, so that a block stays in the L1 cache
  const int64_t len = a.length, d = a.dim, dp = padded<T>(d), kp = padded<T>(chunk.keys());
  Pieces<T> workspace(scratch<Backward, T>(d * kp + kp * dp + kRows * (kColumns + 2 * dp)));
  T* keys_t = workspace.take(d * kp);            // (d, kp)
  T* keys = workspace.take(kp * dp);             // (kp, dp)
  T* scores = workspace.take(kRows * kColumns);  // (kRows, kColumns), then their gradients
  T* queries = workspace.take(kRows * dp);       // (kRows, dp)
  T* dqueries = workspace.take(kRows * dp);      // (kRows, dp)
  const T* k = a.k + (chunk.b * all_keys(a) + chunk.key_begin) * d;
  pack_transposed(k, d, chunk.keys(), d, keys_t);
  pack(k, d, chunk.keys(), d, T(1), kp, keys);
  std::fill(dkeys, dkeys + kp * dp, T(0));

  for (int64_t t0 = chunk.row_begin; t0 < chunk.row_end; t0 += kRows) {
    const int64_t rows = std::min(kRows, chunk.row_end - t0), first = chunk.b * len + t0;
    T dcopy[kRows] = {}, dsink[kRows] = {}, log_sink[kRows] = {}, inverse_copy[kRows] = {};
    bool any = false;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = first + r;
      if (g.dlog_copy && a.log_copy[row] > kMinusInf<T>) {
        dcopy[r] = g.dlog_copy[row];
        inverse_copy[r] = -a.log_copy[row];
      }
      if (g.dlog_sink && a.sink) dsink[r] = g.dlog_sink[row];
      log_sink[r] = a.log_sink[row];
      any = any || dcopy[r] != 0 || dsink[r] != 0;
    }
    if (!any) continue;
    for (int64_t r = 0; r < kRows; r += simd::kLanes<T>) {
      const simd::Vec<T> sink = simd::load(log_sink + r);
      const simd::Vec<T> ds =
          simd::load(dsink + r) * simd::one_minus_exp<T>(sink) - simd::load(dcopy + r) * simd::exp(sink);
      simd::store(inverse_copy + r, simd::exp(simd::load(inverse_copy + r)));
      const int64_t count = std::clamp<int64_t>(rows - r, 0, simd::kLanes<T>);
      if (g.dsink)
        simd::store_partial(g.dsink + first + r, simd::load_partial(g.dsink + first + r, count) + ds, count);
    }

    const Columns visible = visible_columns(a, chunk, t0, rows);
    pack(a.q + first * d, d, rows, d, a.scale, kRows, queries);
    std::fill(dqueries, dqueries + kRows * dp, T(0));
    for (int64_t c = visible.begin; c < visible.end; c += kColumns) {
      const int64_t n = std::min(kColumns, visible.end - c), key = chunk.key_begin + c;
      block_product<T>(kRows, n, d, {queries, dp, 1}, keys_t + c, kp, scores, kColumns, false);
      for (int64_t r = 0; r < kRows; ++r) {
        T* s = scores + r * kColumns;
        const int64_t row = first + r;
        if ((dcopy[r] == 0 && dsink[r] == 0) || a.lse[row] == kMinusInf<T>) {
          std::fill(s, s + n, T(0));
          continue;
        }
        const Span span = mask_row(a, chunk.b, t0 + r, key, n, s);
        const int32_t* tokens = a.tokens + chunk.b * all_keys(a) + key + a.shift;
        const int32_t target = a.targets[row];
        const T log_copy = a.log_copy[row], all = -(dcopy[r] + dsink[r]);
        if (dcopy[r] != 0 && !(log_copy > kUnderflow<T>)) {
          for (int64_t j = span.begin; j < span.end; ++j) {
            const T logit = s[j] - a.lse[row];
            s[j] = all * std::exp(logit);
            if (tokens[j] == target) s[j] += dcopy[r] * std::exp(logit - log_copy);
          }
          std::fill(s, s + span.begin, T(0));
          std::fill(s + span.end, s + n, T(0));
        } else {
          row_exp(s, n, a.lse[row]);
          const T match = all + (dcopy[r] != 0 ? dcopy[r] * inverse_copy[r] : T(0));
          std::fill(s, s + span.begin, T(0));
          for (int64_t j = span.begin; j < span.end; ++j) s[j] *= tokens[j] == target ? match : all;
        }
      }
      block_product<T>(kRows, dp, n, {scores, kColumns, 1}, keys + c * dp, dp, dqueries, dp, true);
      block_product<T>(n, dp, kRows, {scores, 1, kColumns}, queries, dp, dkeys + c * dp, dp, true);
    }
    if (g.dq) add_packed(dqueries, rows, d, a.scale, g.dq + first * d, d);
  }
}

template <class T>
void pointer_backward(const PointerArgs<T>& a, const PointerGrads<T>& g) {
  const int64_t chunks = (a.length + chunk_rows(a) - 1) / chunk_rows(a);
  const int64_t dp = padded<T>(a.dim), part = padded<T>(all_keys(a)) * dp, work = visible_pairs(a) * a.dim;
  T* dkeys = scratch<KeyGradients, T>(a.batch * chunks * part);
  parallel_for(a.batch * chunks, 3 * work, [&](int64_t task) {
    backward_chunk(a, g, Chunk<T>(a, task / chunks, task % chunks), dkeys + task * part);
  });
  if (!g.dk) return;
  parallel_for(a.batch, work, [&](int64_t b) {
    for (int64_t index = 0; index < chunks; ++index) {
      const Chunk<T> chunk(a, b, index);
      add_packed(dkeys + (b * chunks + index) * part, chunk.keys(), a.dim, T(1),
                 g.dk + (b * all_keys(a) + chunk.key_begin) * a.dim, a.dim);
    }
  });
}

}  // namespace

template <class T>
void fill_pointer(KernelTable<T>& k) {
  k.pointer = pointer<T>;
  k.pointer_backward = pointer_backward<T>;
}
template void fill_pointer(KernelTable<float>&);
template void fill_pointer(KernelTable<double>&);

}  // namespace copylab::cpu
