// The Pointer Sentinel head (Merity et al. 2016, arXiv 1609.07843; papers §3.1, §3.2): one softmax over past
// positions and a sentinel, whose share goes to the LM head.
#include <cmath>

#include "core/nn/heads/heads.h"
#include "core/nn/heads/lm_projection.h"
#include "core/nn/heads/pointer_modes.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear.h"

namespace copylab::nn {
namespace {

std::vector<Field> fields() {
  std::vector<Field> all = lm_projection_fields();
  const std::vector<Field> own = {
      {"head.window", int64_t{0}, "positions that the pointer sees, the present one included; 0 = all", 0,
       1 << 20},
      {"head.projection",
       std::string("tanh"),
       "query from the hidden state h: tanh(W·h + b), or h itself (none)",
       0,
       0,
       {"tanh", "none"}},
      {"head.scale",
       std::string("none"),
       "of the scores: none as in the paper, or 1/sqrt(D) (sqrt)",
       0,
       0,
       {"none", "sqrt"}},
      {"head.sentinel_std", 0.01,
       "standard deviation of the initial sentinel; a large one takes all of the mass before the pointer "
       "learns",
       0.0, 10.0},
      {"head.auxiliary", 1.0,
       "weight of -log(pointer's mass on the target's positions + sentinel), added to the loss in training",
       0.0, 1e3},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

class PointerSentinel : public Head {
 public:
  PointerSentinel(const HeadContext& context, const Settings& settings)
      : lm_(context, settings, 0), dim_(context.dim), auxiliary_(settings.real("head.auxiliary")) {
    pointer_.window = settings.integer("head.window");
    pointer_.copy_self = true;  // the window holds h_t itself, which stands for x_t
    pointer_.probe = "copy_head.weights";
    scale_ = settings.text("head.scale") == "sqrt" ? 1.0 / std::sqrt(static_cast<double>(dim_)) : 1.0;
    pointer_.scale = scale_;
    Parameters& p = context.parameters;
    if (settings.text("head.projection") == "tanh") {
      q_ = &p.add("copy_head.q.weight", {dim_, dim_}, context.init, true);
      q_bias_ = &p.add("copy_head.q.bias", {dim_}, Init::constant(0.0), false);
    }
    sentinel_ = &p.add("copy_head.sentinel", {dim_}, Init::normal(settings.real("head.sentinel_std")), false);
  }

  HeadOutput forward(Tape& tape, const HeadInput& in) const override {
    const int64_t labelled = static_cast<int64_t>(in.rows.size());
    const int64_t batch = in.tokens.dim(0), length = in.tokens.dim(1);
    const Tensor q = q_ ? ops::tanh(tape, ops::linear(tape, in.h, *q_, *q_bias_)) : in.h;
    const Tensor sentinel = ops::scale(tape, ops::linear(tape, q, sentinel_->reshape({1, dim_})), scale_)
                                .reshape({batch, length});
    ops::PointerOptions options = pointer_;
    options.segment = in.segment;
    options.want_weights = in.want_argmax;
    const ops::PointerResult pointer = ops::pointer(tape, q.reshape({batch, length, dim_}),
                                                    in.keys.reshape({batch, in.memory + length, dim_}),
                                                    sentinel, in.key_tokens, in.targets, options);
    const auto at_rows = [&](const Tensor& x) {
      return select_rows(tape, x.reshape({x.size(), 1}), in.rows).reshape({labelled});
    };

    // Columns of the output matrix: the target, and for evaluation each token of the context.
    const Candidates candidates = find_candidates(tape, in);
    const int64_t columns = 1 + candidates.per_row;
    std::vector<int32_t> ids(labelled * columns);
    for (int64_t i = 0; i < labelled; ++i) {
      ids[i * columns] = in.row_targets[i];
      for (int64_t c = 0; c < candidates.per_row; ++c)
        ids[i * columns + 1 + c] = candidates.of_row(in.rows[i])[c];
    }
    const ops::LmHeadResult lm =
        lm_.logits(tape, select_rows(tape, in.h, in.rows), tape.constant(ids, {labelled, columns}));
    const Tensor log_p = ops::sub(tape, column(tape, lm.logits, 0), lm.lse);
    const Tensor log_sentinel = at_rows(pointer.log_sink);

    // p = g·p_vocab + the pointer's mass on the target.
    HeadOutput out;
    out.log_copy = at_rows(pointer.log_copy);
    out.nll = ops::neg(tape, ops::logaddexp(tape, ops::add(tape, log_p, log_sentinel), out.log_copy));
    out.lm_nll = ops::neg(tape, log_p);
    if (auxiliary_ > 0)
      out.aux = ops::scale(tape, ops::logaddexp(tape, out.log_copy, log_sentinel), -auxiliary_);
    out.sink = ops::exp(tape, log_sentinel);
    out.gate = ops::affine(tape, out.sink.detach(), 0.0, 1.0);
    if (in.want_argmax) decide(tape, in, candidates, lm, 1, pointer, false, out);
    return out;
  }

  double flops_per_token(int64_t length) const override {
    const double dim = static_cast<double>(dim_);
    return lm_.flops() + (q_ ? 2.0 * dim * dim : 0.0) + 2.0 * dim * mean_keys(length, pointer_.window);
  }

  int64_t cache_per_token() const override { return dim_; }
  // Queries before and after tanh; the keys are the hidden states.
  double activations_per_token(double) const override { return q_ ? 2.0 * static_cast<double>(dim_) : 0.0; }
  // The most probable token of a mixture is found from the weights of all positions.
  double decision_per_token(int64_t length) const override { return static_cast<double>(length); }
  int64_t memory() const override { return pointer_.window > 0 ? pointer_.window - 1 : 0; }

 private:
  LmProjection lm_;
  ops::PointerOptions pointer_;
  int64_t dim_;
  double auxiliary_, scale_;
  const Tensor *q_ = nullptr, *q_bias_ = nullptr, *sentinel_ = nullptr;
};

}  // namespace

HeadEntry pointer_sentinel_head() {
  return {"pointer_sentinel",
          "one softmax over past positions and a sentinel that stands for the LM head (PSM)", fields,
          [](const Settings&) { return int64_t{0}; },
          [](const HeadContext& context, const Settings& settings) -> std::unique_ptr<Head> {
            return std::make_unique<PointerSentinel>(context, settings);
          }};
}

}  // namespace copylab::nn
