// lm_head: log-sum-exp of h·Wᵀ over the vocabulary and the logits at chosen columns, in tiles.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

struct LmHeadResult {
  Tensor lse;     // (N) log-sum-exp over the vocabulary, minus `shift`
  Tensor logits;  // (N, K) logits at the chosen columns, minus `shift`; 0 where the column is negative
  Tensor shift;   // (N) the row's largest logit over the vocabulary; no gradient
  Tensor argmax;  // (N) int32, the smallest index among the largest logits
};

// h (N, D), w (R, D), columns (N, K) int32 in [0, R) or negative. The log-sum-exp and argmax run over columns
// 0..vocab-1, vocab <= R, without those whose entry of `excluded` (vocab) uint8 is nonzero; where nothing is
// left (always with vocab 0), lse is -inf, argmax -1 and shift 0. -log p of column k is lse - logits[k].
// Gradients are those of the quantities before `shift` is taken off, as if shift were a constant.
LmHeadResult lm_head(Tape& tape, const Tensor& h, const Tensor& w, const Tensor& columns, int64_t vocab,
                     const Tensor& excluded = {});

}  // namespace copylab::ops
