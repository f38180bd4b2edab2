// LmProjection: tied, untied and rank-limited output matrices.
#include "core/nn/heads/lm_projection.h"

#include <Eigen/QR>
#include <numeric>

#include "core/ops/gather_rows.h"
#include "core/ops/linear.h"
#include "core/ops/project_gradient.h"
#include "core/random.h"

namespace copylab::nn {

std::vector<Field> lm_projection_fields() {
  return {
      {"head.rank", int64_t{0}, "rank of a factorised output matrix W = A·B; 0 = not factorised", 0, 1 << 20},
      {"head.backward_rank", int64_t{0},
       "rank of the projection of the gradient that the LM head sends to h (logits stay exact); 0 = none", 0,
       1 << 20},
  };
}

LmProjection::LmProjection(const HeadContext& context, const Settings& settings, int64_t extra_rows)
    : vocab_(context.vocab),
      dim_(context.dim),
      rows_(context.vocab + extra_rows),
      rank_(settings.integer("head.rank")),
      backward_rank_(settings.integer("head.backward_rank")) {
  expect(rank_ == 0 || !context.tied, "head", "head.rank = {} needs model.tied = false", rank_);
  expect(rank_ <= dim_ && backward_rank_ <= dim_, "head",
         "head.rank = {} and head.backward_rank = {} must not exceed the width {}", rank_, backward_rank_,
         dim_);
  const Init init = context.init;
  if (context.tied) {
    weight_ = context.embedding;
  } else if (rank_ == 0) {
    weight_ = &context.parameters.add("lm_head.weight", {rows_, dim_}, init, true);
  } else {
    // Keeps the logits' initial variance: var(A·B·h) = r · var(A) · var(B·h) with var(B·h) = var(h).
    const Init down = Init::normal(1.0 / std::sqrt(static_cast<double>(dim_)));
    const Init up =
        Init::normal(context.init_std * std::sqrt(static_cast<double>(dim_) / static_cast<double>(rank_)));
    weight_ = &context.parameters.add("lm_head.weight", {rows_, rank_}, up, true);
    down_ = &context.parameters.add("lm_head.down.weight", {rank_, dim_}, down, true);
  }
  if (backward_rank_ > 0) {
    // The directions are a constant of (D, r), the same for every seed.
    const Random random(0, "head.backward_rank");
    Eigen::MatrixXd gaussian(dim_, backward_rank_);
    for (int64_t i = 0; i < gaussian.size(); ++i) gaussian.data()[i] = random.normal(i);
    const Eigen::MatrixXd q = Eigen::HouseholderQR<Eigen::MatrixXd>(gaussian).householderQ() *
                              Eigen::MatrixXd::Identity(dim_, backward_rank_);
    basis_.resize(dim_ * backward_rank_);
    for (int64_t i = 0; i < dim_; ++i)
      for (int64_t j = 0; j < backward_rank_; ++j) basis_[i * backward_rank_ + j] = q(i, j);
  }
}

Tensor LmProjection::reduce(Tape& tape, const Tensor& h) const {
  Tensor x = h;
  if (backward_rank_ > 0) {
    Tensor basis;
    dispatch_float(h.dtype(), "head", [&](auto tag) {
      using T = decltype(tag);
      basis = tape.constant(std::vector<T>(basis_.begin(), basis_.end()), {dim_, backward_rank_});
    });
    x = ops::project_gradient(tape, x, basis);
  }
  return rank_ > 0 ? ops::linear(tape, x, *down_) : x;
}

ops::LmHeadResult LmProjection::logits(Tape& tape, const Tensor& h, const Tensor& columns) const {
  return ops::lm_head(tape, reduce(tape, h), *weight_, columns, vocab_);
}

Tensor LmProjection::logits_at(Tape& tape, const Tensor& h, const Tensor& columns) const {
  return ops::lm_head(tape, reduce(tape, h), *weight_, columns, 0).logits;
}

Tensor LmProjection::logits_of(Tape& tape, const Tensor& h, int64_t first, int64_t count) const {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(first));
  return ops::linear(tape, reduce(tape, h), ops::gather_rows(tape, *weight_, tape.constant(ids, {count})));
}

double LmProjection::flops() const {
  return rank_ > 0 ? 2.0 * static_cast<double>(rank_ * (rows_ + dim_))
                   : 2.0 * static_cast<double>(rows_ * dim_);
}

}  // namespace copylab::nn
