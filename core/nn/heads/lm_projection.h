// LmProjection: the matrix from hidden states to vocabulary logits that all heads share, with its rank
// options.
#pragma once

#include "core/nn/head.h"
#include "core/ops/lm_head.h"

namespace copylab::nn {

std::vector<Field> lm_projection_fields();

// Tied: the embedding. Untied: lm_head.weight (vocab + extra_rows, D). With head.rank r the head is
// factorised, W = A·B with lm_head.weight = A (vocab + extra_rows, r) and lm_head.down.weight = B (r, D): a
// bound on the forward rank (Lost in Backpropagation §1.4). With head.backward_rank r logits and the gradient
// of W are exact, but the gradient sent to h is projected on r fixed random orthonormal directions of R^D and
// rescaled to its own RMS (the control of papers §1.6).
class LmProjection {
 public:
  LmProjection(const HeadContext& context, const Settings& settings, int64_t extra_rows);

  // h (M, D); columns (M, K) int32 -> lse over the vocabulary and logits at the columns, see ops::lm_head.
  ops::LmHeadResult logits(Tape& tape, const Tensor& h, const Tensor& columns) const;
  // Logits at the columns alone, (M, K), not shifted.
  Tensor logits_at(Tape& tape, const Tensor& h, const Tensor& columns) const;

  // Logits of tokens first..first+count-1, (M, count), for evaluation.
  Tensor logits_of(Tape& tape, const Tensor& h, int64_t first, int64_t count) const;

  int64_t vocab() const { return vocab_; }
  double flops() const;  // of one position, forward

 private:
  Tensor reduce(Tape& tape, const Tensor& h) const;

  int64_t vocab_, dim_, rows_, rank_, backward_rank_;
  const Tensor* weight_;
  const Tensor* down_ = nullptr;
  std::vector<double> basis_;  // (D, backward_rank)
};

}  // namespace copylab::nn
