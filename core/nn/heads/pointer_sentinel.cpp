// The Pointer Sentinel head (Merity et al. 2016, arXiv 1609.07843; papers §3.1, §3.2): one softmax over past
// positions and a sentinel, whose share goes to the LM head; and what it is compared with: a gate of its own,
// one gate for all positions, no vocabulary.
#include <cmath>
#include <optional>

#include "core/nn/heads/heads.h"
#include "core/nn/heads/lm_projection.h"
#include "core/nn/heads/pointer_modes.h"
#include "core/ops/copy_mixture.h"
#include "core/ops/elementwise.h"
#include "core/ops/gather_rows.h"
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
      {.path = "head.gate",
       .fallback = std::string("joint"),
       .doc =
           "the vocabulary's share g: the sentinel's weight among the positions (joint), sigmoid(w·h + b) "
           "with a pointer that has no sentinel, as in a pointer-generator (sigmoid), or one learned number "
           "for all positions (constant)",
       .choices = {"joint", "sigmoid", "constant"},
       .later = true},
      {.path = "head.mixture",
       .fallback = std::string("both"),
       .doc = "what g goes to: the LM head (both), or every token alike, 1/V each, without an LM head "
              "(pointer), so that words out of the pointer's reach keep a finite loss",
       .choices = {"both", "pointer"},
       .later = true},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

class PointerSentinel : public Head {
 public:
  PointerSentinel(const HeadContext& context, const Settings& settings)
      : vocab_(context.vocab), dim_(context.dim), auxiliary_(settings.real("head.auxiliary")) {
    const std::string& gate = settings.text("head.gate");
    if (settings.text("head.mixture") == "both") lm_.emplace(context, settings, 0);
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
    if (gate == "joint")
      sentinel_ =
          &p.add("copy_head.sentinel", {dim_}, Init::normal(settings.real("head.sentinel_std")), false);
    else
      gate_bias_ = &p.add("copy_head.gate.bias", {1}, Init::constant(0.0), false);
    if (gate == "sigmoid") gate_ = &p.add("copy_head.gate.weight", {1, dim_}, context.init, true);
  }

  HeadOutput forward(Tape& tape, const HeadInput& in) const override {
    const int64_t labelled = static_cast<int64_t>(in.rows.size());
    const ops::PointerResult pointer = point(tape, in);
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
    const Tensor h = select_rows(tape, in.h, in.rows);
    const ops::LmHeadResult lm = lm_ ? lm_->logits(tape, h, tape.constant(ids, {labelled, columns}))
                                     : every_token_alike(tape, h.dtype(), labelled, columns);
    const Tensor log_p = ops::sub(tape, column(tape, lm.logits, 0), lm.lse);

    HeadOutput out;
    out.log_copy = at_rows(pointer.log_copy);
    out.lm_nll = ops::neg(tape, log_p);
    const Tensor log_sentinel = at_rows(pointer.log_sink);
    out.sink = ops::exp(tape, log_sentinel);
    Tensor log_right;  // log of the share that the auxiliary loss wants to be all: g and the target's copies
    if (sentinel_) {
      // p = g·p_vocab + the pointer's mass on the target.
      out.gate = ops::affine(tape, out.sink.detach(), 0.0, 1.0);
      out.nll = ops::neg(tape, ops::logaddexp(tape, ops::add(tape, log_p, log_sentinel), out.log_copy));
      log_right = ops::logaddexp(tape, out.log_copy, log_sentinel);
    } else {
      const Tensor g_logit = gate_logit(tape, h);
      const Tensor copy_logit = ops::neg(tape, g_logit);
      out.gate = ops::sigmoid(tape, copy_logit);
      out.nll = ops::copy_mixture(tape, log_p, copy_logit, out.log_copy, log_sentinel);
      log_right = ops::logaddexp(tape, ops::log_sigmoid(tape, g_logit),
                                 ops::add(tape, ops::log_sigmoid(tape, copy_logit), out.log_copy));
    }
    if (auxiliary_ > 0) out.aux = ops::scale(tape, log_right, -auxiliary_);
    if (in.want_argmax) decide(tape, in, candidates, lm, 1, pointer, false, out);
    return out;
  }

  double flops_per_token(int64_t length) const override {
    const double dim = static_cast<double>(dim_);
    return (lm_ ? lm_->flops() : 0.0) + (q_ ? 2.0 * dim * dim : 0.0) +
           2.0 * dim * mean_keys(length, pointer_.window);
  }

  int64_t cache_per_token() const override { return dim_; }
  // Queries before and after tanh; the keys are the hidden states.
  double activations_per_token(double) const override { return q_ ? 2.0 * static_cast<double>(dim_) : 0.0; }
  // The most probable token of a mixture is found from the weights of all positions.
  double decision_per_token(int64_t length) const override { return static_cast<double>(length); }
  int64_t memory() const override { return pointer_.window > 0 ? pointer_.window - 1 : 0; }

 private:
  ops::PointerResult point(Tape& tape, const HeadInput& in) const {
    const int64_t batch = in.tokens.dim(0), length = in.tokens.dim(1);
    const Tensor q = q_ ? ops::tanh(tape, ops::linear(tape, in.h, *q_, *q_bias_)) : in.h;
    Tensor sentinel;
    if (sentinel_)
      sentinel = ops::scale(tape, ops::linear(tape, q, sentinel_->reshape({1, dim_})), scale_)
                     .reshape({batch, length});
    ops::PointerOptions options = pointer_;
    options.segment = in.segment;
    options.want_weights = in.want_argmax;
    return ops::pointer(tape, q.reshape({batch, length, dim_}),
                        in.keys.reshape({batch, in.memory + length, dim_}), sentinel, in.key_tokens,
                        in.targets, options);
  }

  // log(g / (1 - g)) of rows h (M, D) where g is not the sentinel's.
  Tensor gate_logit(Tape& tape, const Tensor& h) const {
    const int64_t rows = h.dim(0);
    if (gate_) return ops::linear(tape, h, *gate_, *gate_bias_).reshape({rows});
    const std::vector<int32_t> same(rows, 0);
    return ops::gather_rows(tape, gate_bias_->reshape({1, 1}), tape.constant(same, {rows})).reshape({rows});
  }

  // In place of an LM head: logits of 0, so that every token has 1/V.
  ops::LmHeadResult every_token_alike(Tape& tape, DType dtype, int64_t rows, int64_t columns) const {
    ops::LmHeadResult lm;
    dispatch_float(dtype, "head", [&](auto tag) {
      using T = decltype(tag);
      const T log_vocab = static_cast<T>(std::log(static_cast<double>(vocab_)));
      lm.lse = tape.constant(std::vector<T>(rows, log_vocab), {rows});
      lm.logits = tape.constant(std::vector<T>(rows * columns), {rows, columns});
    });
    lm.argmax = tape.constant(std::vector<int32_t>(rows), {rows});
    return lm;
  }

  std::optional<LmProjection> lm_;
  ops::PointerOptions pointer_;
  int64_t vocab_, dim_;
  double auxiliary_, scale_;
  const Tensor *q_ = nullptr, *q_bias_ = nullptr, *sentinel_ = nullptr;
  const Tensor *gate_ = nullptr, *gate_bias_ = nullptr;
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
