// The signatures that every backend fills: plain pointers and sizes, row-major, no ownership.
//
// Conventions. Sizes are int64. "(N, D)" after a pointer is its shape. Forward kernels overwrite their
// outputs. Backward kernels ADD to gradients; a null gradient pointer means "not asked for". Pointers marked
// "or null" are optional. A kernel gives the same bits for any number of threads.
#pragma once

#include <cstdint>

namespace copylab {

enum class Unary : int { sigmoid, tanh, silu, relu, softplus, log_sigmoid, exp, log, square };
enum class Binary : int { add, sub, mul, logaddexp };

// Causal self-attention over B sequences of T positions; H query heads share G key/value heads (G divides H).
// A row that may see nothing gives 0.
template <class T>
struct AttentionArgs {
  int64_t batch, length, heads, kv_heads, head_dim;
  int64_t window;          // position t sees t-window+1..t; 0 = all of the past
  T scale;                 // usually head_dim^-1/2
  const T* q;              // (B, T, H, d)
  const T* k;              // (B, T, G, d)
  const T* v;              // (B, T, G, d)
  const T* bias;           // (T, T) added to the scores, or null
  const uint8_t* allowed;  // (B, T, T) nonzero where row t may see column j, or null
  const uint8_t* marked;   // (B, T) attention only among nonzero positions, or null
  const int32_t* segment;  // (B, T) attention only within equal values (documents), or null
  T* out;                  // (B, T, H, d)
  T* lse;                  // (B, H, T) log-sum-exp of the scores; -inf for a row that sees nothing
  T* probs;                // (B, H, T, T) for probes, or null
};
template <class T>
struct AttentionGrads {
  const T* dout;    // (B, T, H, d)
  T *dq, *dk, *dv;  // as q, k, v; or null
};

// Pointer attention of the copy heads (papers: CPLM; PSM): one head over past positions and a sink.
// Key j stands for token p = j + shift; row t may point at p < t, or p <= t with copy_self. Keys may reach
// further back than the rows: the first `memory` = M of them come before, so that row t stands at key M + t,
// and wherever "t" is compared with a key, that is meant. A key whose own token is negative is empty: no row
// may use it.
template <class T>
struct PointerArgs {
  int64_t batch, length, dim;
  int64_t memory;  // M
  int64_t window;  // only keys t-window+1..t; 0 = all
  int shift;       // 0: token at the key, 1: the token after the key
  bool copy_self;
  T scale;
  const T* q;              // (B, T, d)
  const T* k;              // (B, M + T, d)
  const T* sink;           // (B, T) the sink's score, already scaled; null = no sink
  const int32_t* tokens;   // (B, M + T); negative = an empty key
  const int32_t* targets;  // (B, T); negative = no target: log_copy is -inf there
  const int32_t* segment;  // (B, M + T) or null: only keys of the row's own segment (document)
  T* log_copy;             // (B, T) log of the weight on positions whose token is the target; -inf if none
  T* log_sink;  // (B, T) log of the sink's weight; 0 for a row without any source; -inf without sink
  T* lse;       // (B, T) log-sum-exp of the row's scores, sink included
  T* weights;   // (B, T, M + T) weight of row t on token p = j + shift, 0 where not admissible, or null
};
template <class T>
struct PointerGrads {
  const T* dlog_copy;  // (B, T) or null
  const T* dlog_sink;  // (B, T) or null
  T *dq, *dk, *dsink;  // or null
};

// The output head: log-sum-exp over columns 0..vocab-1 of h·Wᵀ, and the logits at chosen columns, in tiles.
// Nothing of size (N, V) exists. `lse` and `logits` are measured from `shift` (the row's largest logit over
// the vocabulary), so that their differences keep float32 precision at any offset; gradients are those of the
// unshifted quantities.
template <class T>
struct LmHeadArgs {
  int64_t rows, dim, vocab;
  int64_t weight_rows;        // rows of W, >= vocab; extra rows (a <copy> gate) lie outside the lse
  int64_t columns;            // K
  const T* h;                 // (N, D)
  const T* w;                 // (weight_rows, D)
  const int32_t* column_ids;  // (N, K), in [0, weight_rows), or negative: logit 0 and no gradient
  const uint8_t* excluded;    // (vocab) nonzero leaves that column out of lse and argmax, or null
  T* lse;                     // (N); -inf where every column is excluded (shift is 0 there)
  T* logits;                  // (N, K)
  T* shift;                   // (N)
  int32_t* argmax;            // (N) the smallest index among the largest logits; -1 where all are excluded
};
template <class T>
struct LmHeadGrads {
  const T* dlse;     // (N) or null
  const T* dlogits;  // (N, K) or null
  T* dh;             // (N, D) or null
  T* dw;             // (weight_rows, D) or null
};

// nll = -log p of the copy mixture (CPLM §2.3 in log space), from
//   lm = log P~(y) over the real vocabulary, u = the gate's logit (alpha = sigmoid(u)),
//   log_copy = log pi(y), log_sink = log a_sink:
//   p = P~(y) (1 - a + a·a_sink) + a·pi(y),  a = floor + (1 - floor)·alpha;  drop_sink leaves out a·a_sink.
template <class T>
struct CopyMixtureArgs {
  int64_t n;
  T gate_floor;
  bool drop_sink;
  const T *lm, *gate_logit, *log_copy, *log_sink;  // (n) each
  T* nll;                                          // (n)
};
template <class T>
struct CopyMixtureGrads {
  const T* dnll;                                 // (n)
  T *dlm, *dgate_logit, *dlog_copy, *dlog_sink;  // (n) each, or null
};

// Zoneout (Krueger et al. 2017) of an LSTM's states: each unit keeps its old value with probability `h` or
// `c`. In `training` that is drawn anew for each step: unit j of state s (0 = h, 1 = c) at row n = b·T + t is
// decided by word j%4 of Philox block (2·n + s)·⌈H/4⌉ + j/4 under (key, step). Otherwise every unit moves by
// the expected share.
struct Zoneout {
  double h, c;
  bool training;
  uint64_t key, step;
};

// One LSTM layer over a sequence; gate order i, f, g, o as in PyTorch. The input product x·W_ihᵀ + b_ih is
// done before, by linear. With zoneout, h_t = z·h_{t-1} + (1 - z)·o·tanh(c~), c_t likewise from c~ =
// f·c_{t-1}
// + i·g.
template <class T>
struct LstmArgs {
  int64_t batch, length, hidden;
  Zoneout zoneout;
  const T* x_gates;  // (B, T, 4H)
  const T* w_hh;     // (4H, H)
  const T* bias;     // (4H) b_hh, or null
  const T* h0;       // (B, H)
  const T* c0;       // (B, H)
  T* h;              // (B, T, H)
  T* c;              // (B, T, H)
  T* gates;          // (B, T, 4H) after their non-linearities, kept for backward
  T* h_last;         // (B, H) copies of the last step
  T* c_last;         // (B, H)
};
template <class T>
struct LstmGrads {
  const T* dh;                              // (B, T, H) or null
  const T *dh_last, *dc_last;               // (B, H) or null
  T *dx_gates, *dw_hh, *dbias, *dh0, *dc0;  // or null
};

// Flat buffers cut into ranges that take weight decay and that do not, by turns.
struct DecayRanges {
  const int64_t* ends = nullptr;  // (count) ascending, on the backend
  int64_t count = 0;              // 0: everything takes it
  bool first = true;              // range 0 takes it
};

template <class T>
struct AdamWArgs {
  int64_t n;
  T* param;
  T* grad;  // set to zero when `zero_grad`
  T* m;
  T* v;
  T lr, beta1, beta2, eps, weight_decay;
  T bias1, bias2;  // 1 - beta^step
  T grad_scale;    // gradient clipping
  bool zero_grad;
  DecayRanges ranges = {};
};

template <class T>
struct KernelTable {
  // y (N, O) = x (N, I) · wᵀ, w (O, I); plus bias (O) or null.
  void (*linear)(const T* x, const T* w, const T* bias, T* y, int64_t n, int64_t in, int64_t out);
  // dx (N, I) += dy · w; dw (O, I) += dyᵀ · x; dbias (O) += column sums. Each may be null.
  void (*linear_backward)(const T* x, const T* w, const T* dy, T* dx, T* dw, T* dbias, int64_t n, int64_t in,
                          int64_t out);

  void (*lm_head)(const LmHeadArgs<T>&);
  void (*lm_head_backward)(const LmHeadArgs<T>&, const LmHeadGrads<T>&);

  // y (n, D) = rows of table (V, D). An id outside 0..V-1 is an Error.
  void (*embedding)(const T* table, const int32_t* ids, T* y, int64_t n, int64_t dim, int64_t vocab);
  // dtable rows += dy rows; rows of one id are added in order of position, and no other row is touched.
  void (*embedding_backward)(const int32_t* ids, const T* dy, T* dtable, int64_t n, int64_t dim,
                             int64_t vocab);
  // y (n, D) = x[index], x (rows, D); index -1 gives a row of 0, any other outside 0..rows-1 is an Error.
  // With `add`, y +=.
  void (*gather_rows)(const T* x, const int32_t* index, T* y, int64_t n, int64_t dim, int64_t rows, bool add);
  // y[index[i]] += x[i] in order of i, y (rows, D); index -1 is skipped.
  void (*scatter_rows_add)(const T* x, const int32_t* index, T* y, int64_t n, int64_t dim, int64_t rows);

  // y = x / rms(x) · weight (or 1 if null) per row; inv_rms (N) is kept for backward.
  void (*rms_norm)(const T* x, const T* weight, T* y, T* inv_rms, int64_t n, int64_t dim, T eps);
  void (*rms_norm_backward)(const T* x, const T* weight, const T* inv_rms, const T* dy, T* dx, T* dweight,
                            int64_t n, int64_t dim);
  void (*layer_norm)(const T* x, const T* weight, const T* bias, T* y, T* mean, T* inv_std, int64_t n,
                     int64_t dim, T eps);
  void (*layer_norm_backward)(const T* x, const T* weight, const T* mean, const T* inv_std, const T* dy,
                              T* dx, T* dweight, T* dbias, int64_t n, int64_t dim);

  // Half-split rotary embedding of x (N, H, d) with cos/sin (P, d/2) at row positions (N), each in 0..P-1,
  // else an Error; sign -1 rotates back. With `add`, y += (the backward pass).
  void (*rope)(const T* x, const T* cos, const T* sin, const int32_t* positions, T* y, int64_t n,
               int64_t heads, int64_t head_dim, int64_t table_rows, int sign, bool add);

  void (*attention)(const AttentionArgs<T>&);
  void (*attention_backward)(const AttentionArgs<T>&, const AttentionGrads<T>&);
  void (*pointer)(const PointerArgs<T>&);
  void (*pointer_backward)(const PointerArgs<T>&, const PointerGrads<T>&);
  void (*copy_mixture)(const CopyMixtureArgs<T>&);
  void (*copy_mixture_backward)(const CopyMixtureArgs<T>&, const CopyMixtureGrads<T>&);
  void (*lstm)(const LstmArgs<T>&);
  void (*lstm_backward)(const LstmArgs<T>&, const LstmGrads<T>&);

  // y = silu(gate) · up.
  void (*swiglu)(const T* gate, const T* up, T* y, int64_t n);
  void (*swiglu_backward)(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t n);

  void (*unary)(Unary op, const T* x, T* y, int64_t n);
  void (*unary_backward)(Unary op, const T* x, const T* y, const T* dy, T* dx, int64_t n);
  void (*binary)(Binary op, const T* a, const T* b, T* y, int64_t n);
  void (*binary_backward)(Binary op, const T* a, const T* b, const T* y, const T* dy, T* da, T* db,
                          int64_t n);
  // y = alpha·x + beta; with `add`, y += alpha·x + beta.
  void (*affine)(const T* x, T alpha, T beta, T* y, int64_t n, bool add);
  // y (N, D) = x (N, D) · s (one number on the backend).
  void (*scale_by)(const T* x, const T* s, T* y, int64_t n);
  void (*scale_by_backward)(const T* x, const T* s, const T* dy, T* dx, T* ds, int64_t n);
  // Inverted dropout: kept with probability 1-rate and scaled by 1/(1-rate). Element i is decided by word i%4
  // of Philox block i/4 under (key, step). With `add`, y += (the backward pass regenerates the same mask).
  void (*dropout)(const T* x, T* y, int64_t n, T rate, uint64_t key, uint64_t step, bool add);
  // The same of x (B, T, D) with one mask for all positions of a sequence: (b, ·, d) is element b·D + d of
  // it.
  void (*locked_dropout)(const T* x, T* y, int64_t batch, int64_t length, int64_t dim, T rate, uint64_t key,
                         uint64_t step, bool add);

  // out (1) = sum_i x_i·w_i (w null = 1) accumulated in double over fixed chunks joined in order.
  void (*weighted_sum)(const T* x, const T* w, T* out, int64_t n);
  // dx (n) += dy·w, dy one number on the backend.
  void (*weighted_sum_backward)(const T* w, const T* dy, T* dx, int64_t n);
  double (*sum_of_squares)(const T* x, int64_t n);
  // No NaN and no Inf; with `allow_minus_inf`, log-probabilities of impossible events pass.
  bool (*all_finite)(const T* x, int64_t n, bool allow_minus_inf);
  // g projected on the columns of basis (D, r) (orthonormal), scaled so that its RMS over all rows is kept
  // when `match_rms`: dx (N, D) += that.
  void (*project_rows)(const T* g, const T* basis, T* dx, int64_t n, int64_t dim, int64_t rank,
                       bool match_rms);

  void (*adamw)(const AdamWArgs<T>&);
  // param -= lr·grad_scale·grad (+ decay); grad set to zero when asked.
  void (*sgd)(T* param, T* grad, int64_t n, T lr, T weight_decay, T grad_scale, bool zero_grad,
              const DecayRanges& ranges);
};

}  // namespace copylab
