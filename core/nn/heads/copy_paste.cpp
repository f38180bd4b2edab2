// The Copy-Paste head (CPLM, arXiv 2610.19247; author code as in papers §2.3): a pointer over past positions,
// a <copy> gate and a sink, mixed with the LM head.
#include <cmath>

#include "core/nn/heads/heads.h"
#include "core/nn/heads/lm_projection.h"
#include "core/nn/heads/pointer_modes.h"
#include "core/ops/copy_mixture.h"
#include "core/ops/elementwise.h"
#include "core/ops/gather_rows.h"
#include "core/ops/linear.h"
#include "core/ops/pointer.h"
#include "core/ops/rms_norm.h"
#include "core/ops/scale_by.h"

namespace copylab::nn {
namespace {

constexpr double kQkNormEps = 1e-6;

std::vector<Field> fields() {
  std::vector<Field> all = lm_projection_fields();
  const std::vector<Field> own = {
      {"head.gate",
       std::string("slot"),
       "slot: softmax mass of a <copy> row of the output matrix; sigmoid: a gate of its own (variant G)",
       0,
       0,
       {"slot", "sigmoid"}},
      {"head.sink",
       std::string("on"),
       "on: the sink's mass goes back to the LM head; off: no sink (variant F); dropped: its mass is lost "
       "(B)",
       0,
       0,
       {"on", "off", "dropped"}},
      {"head.copy_self", true,
       "position t may copy its own token x_t; the author's code does not, but then the first prediction of "
       "a "
       "sequence has nothing to copy and SpamLang of T predictions stops at (T-1)/T"},
      {"head.key_token",
       std::string("at_key"),
       "key j stands for x_j (at_key) or x_{j+1} (next)",
       0,
       0,
       {"at_key", "next"}},
      {"head.qk_norm", true, "RMSNorm on queries and keys, with a learned gain on queries"},
      {"head.dim", int64_t{0}, "width of queries and keys; 0 = D", 0, 1 << 20},
      {"head.window", int64_t{0}, "positions that the pointer sees; 0 = all", 0, 1 << 20},
      {"head.gate_floor", 0.0, "least share offered to the pointer (variant I)", 0.0, 0.99},
      {"head.detach",
       std::string("none"),
       "path whose gradient does not reach the hidden states: queries, keys, both, the gate, or the LM head "
       "(and "
       "with it a <copy> row, which is part of it)",
       0,
       0,
       {"none", "q", "k", "both", "gate", "lm"}},
      {.path = "head.lm_aux",
       .fallback = 0.0,
       .doc = "weight of the LM head's own cross-entropy, added to the loss in training",
       .min = 0.0,
       .max = 1e3,
       .later = true},
      {.path = "head.lm_aux_over",
       .fallback = std::string("vocabulary"),
       .doc = "what that cross-entropy is normalised over: the vocabulary, or the <copy> row as well "
              "(extended), which then pushes the gate down",
       .choices = {"vocabulary", "extended"},
       .later = true},
      {.path = "head.pointer_aux",
       .fallback = 0.0,
       .doc =
           "weight of -log(pointer's mass on the target's positions + sink), added to the loss in training",
       .min = 0.0,
       .max = 1e3,
       .later = true},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

int64_t extra_rows(const Settings& settings) {
  return settings.text("head.gate") == "slot" ? 1 : 0;
}

class CopyPaste : public Head {
 public:
  CopyPaste(const HeadContext& context, const Settings& settings)
      : lm_(context, settings, extra_rows(settings)),
        slot_gate_(settings.text("head.gate") == "slot"),
        has_sink_(settings.text("head.sink") != "off"),
        drop_sink_(settings.text("head.sink") == "dropped"),
        qk_norm_(settings.flag("head.qk_norm")),
        dim_(settings.integer("head.dim") ? settings.integer("head.dim") : context.dim),
        width_(context.dim),
        gate_floor_(settings.real("head.gate_floor")),
        detach_(settings.text("head.detach")),
        lm_aux_(settings.real("head.lm_aux")),
        pointer_aux_(settings.real("head.pointer_aux")),
        lm_aux_extended_(settings.text("head.lm_aux_over") == "extended") {
    expect(slot_gate_ || !lm_aux_extended_, "head", "head.lm_aux_over = extended needs head.gate = slot");
    expect(has_sink_ || pointer_aux_ == 0, "head", "head.pointer_aux = {} needs a sink", pointer_aux_);
    pointer_.window = settings.integer("head.window");
    pointer_.next_token = settings.text("head.key_token") == "next";
    pointer_.copy_self = settings.flag("head.copy_self");
    pointer_.probe = "copy_head.weights";
    Parameters& p = context.parameters;
    const Init in = context.init;
    q_ = &p.add("copy_head.q.weight", {dim_, width_}, in, true);
    k_ = &p.add("copy_head.k.weight", {dim_, width_}, in, true);
    if (has_sink_) {
      const double std = 1.0 / std::sqrt(static_cast<double>(dim_));
      sink_ = &p.add("copy_head.sink", {dim_}, Init::normal(std), false);
    }
    if (qk_norm_) q_gain_ = &p.add("copy_head.q_gain", {1}, Init::constant(1.0), false);
    if (!slot_gate_) {
      gate_ = &p.add("copy_head.gate.weight", {1, width_}, in, true);
      gate_bias_ = &p.add("copy_head.gate.bias", {1}, Init::constant(0.0), false);
    }
  }

  HeadOutput forward(Tape& tape, const HeadInput& in) const override {
    const int64_t labelled = static_cast<int64_t>(in.rows.size());
    const ops::PointerResult pointer = point(tape, in);
    const auto at_rows = [&](const Tensor& x) {
      return select_rows(tape, x.reshape({x.size(), 1}), in.rows).reshape({labelled});
    };

    // Columns of the output matrix: the target, the <copy> row, and for evaluation each token of the context.
    const Candidates candidates = find_candidates(tape, in);
    const Tensor h = select_rows(tape, detached(in.h, "lm"), in.rows);
    const bool gate_with_lm = slot_gate_ && detach_ != "gate";
    const int64_t fixed = gate_with_lm ? 2 : 1;
    const int64_t columns = fixed + candidates.per_row;
    std::vector<int32_t> ids(labelled * columns);
    for (int64_t i = 0; i < labelled; ++i) {
      ids[i * columns] = in.row_targets[i];
      if (gate_with_lm) ids[i * columns + 1] = static_cast<int32_t>(lm_.vocab());
      for (int64_t c = 0; c < candidates.per_row; ++c)
        ids[i * columns + fixed + c] = candidates.of_row(in.rows[i])[c];
    }
    const ops::LmHeadResult lm = lm_.logits(tape, h, tape.constant(ids, {labelled, columns}));

    const Tensor log_p = ops::sub(tape, column(tape, lm.logits, 0), lm.lse);
    Tensor gate_logit;
    if (gate_with_lm) {
      gate_logit = ops::sub(tape, column(tape, lm.logits, 1), lm.lse);
    } else if (slot_gate_) {
      // Nothing flows to h, nor to W through the normaliser; the <copy> row itself still learns.
      const std::vector<int32_t> copy_row(labelled, static_cast<int32_t>(lm_.vocab()));
      const Tensor z =
          lm_.logits_at(tape, h.detach(), tape.constant(copy_row, {labelled, 1})).reshape({labelled});
      gate_logit = ops::sub(tape, z, ops::add(tape, lm.lse.detach(), lm.shift));
    } else {
      const Tensor gate_h = select_rows(tape, detached(in.h, "gate"), in.rows);
      gate_logit = ops::linear(tape, gate_h, *gate_, *gate_bias_).reshape({labelled});
    }

    HeadOutput out;
    out.log_copy = at_rows(pointer.log_copy);
    const Tensor log_sink = at_rows(pointer.log_sink);
    out.nll = ops::copy_mixture(tape, log_p, gate_logit, out.log_copy, log_sink, gate_floor_, drop_sink_);
    out.lm_nll = ops::affine(tape, log_p, -1.0, 0.0);
    out.gate = ops::affine(tape, ops::sigmoid(tape, gate_logit), 1.0 - gate_floor_, gate_floor_);
    out.sink = ops::exp(tape, log_sink);
    out.aux = auxiliary_loss(tape, out, gate_logit, log_sink);
    if (in.want_argmax) decide(tape, in, candidates, lm, fixed, pointer, drop_sink_, out);
    return out;
  }

  double flops_per_token(int64_t length) const override {
    const double scores = 2.0 * static_cast<double>(dim_) * mean_keys(length, pointer_.window);
    return lm_.flops() + 4.0 * static_cast<double>(dim_ * width_) + scores;
  }

  int64_t cache_per_token() const override { return dim_; }
  // Queries and keys, projected and normalised, and the scaled queries.
  double activations_per_token(double keys) const override {
    return (qk_norm_ ? 3 + 2 * keys : 1 + keys) * static_cast<double>(dim_);
  }
  // The most probable token of a mixture is found from the weights of all positions.
  double decision_per_token(int64_t length) const override { return static_cast<double>(length); }
  int64_t memory() const override { return pointer_.window > 0 ? pointer_.window - 1 : 0; }

 private:
  // Auxiliary losses of papers: CPLM §2.7 (CPLM_LM_AUX, and CPLM_AUX_NOCOPY where it is over the vocabulary)
  // and PSM §3.2; undefined where there is none.
  Tensor auxiliary_loss(Tape& tape, const HeadOutput& out, const Tensor& gate_logit,
                        const Tensor& log_sink) const {
    Tensor aux;
    if (lm_aux_ > 0) {
      Tensor ce = out.lm_nll;
      if (lm_aux_extended_) ce = ops::add(tape, ce, ops::softplus(tape, gate_logit));  // - log(1 - alpha)
      aux = ops::scale(tape, ce, lm_aux_);
    }
    if (pointer_aux_ > 0) {
      const Tensor log_right = ops::logaddexp(tape, out.log_copy, log_sink);
      aux = add_losses(tape, aux, ops::scale(tape, log_right, -pointer_aux_));
    }
    return aux;
  }

  Tensor detached(const Tensor& h, const char* path) const { return detach_ == path ? h.detach() : h; }

  ops::PointerResult point(Tape& tape, const HeadInput& in) const {
    const bool q_cut = detach_ == "q" || detach_ == "both", k_cut = detach_ == "k" || detach_ == "both";
    const int64_t batch = in.tokens.dim(0), length = in.tokens.dim(1);
    Tensor q = ops::linear(tape, q_cut ? in.h.detach() : in.h, *q_);
    Tensor k = ops::linear(tape, k_cut ? in.keys.detach() : in.keys, *k_);
    if (qk_norm_) {
      q = ops::scale_by(tape, ops::rms_norm(tape, q, {}, kQkNormEps), *q_gain_);
      k = ops::rms_norm(tape, k, {}, kQkNormEps);
    }
    Tensor sink;
    if (has_sink_) {
      const double scale = 1.0 / std::sqrt(static_cast<double>(dim_));
      sink = ops::affine(tape, ops::linear(tape, q, sink_->reshape({1, dim_})), scale, 0.0)
                 .reshape({batch, length});
    }
    ops::PointerOptions options = pointer_;
    options.segment = in.segment;
    options.want_weights = in.want_argmax;
    return ops::pointer(tape, q.reshape({batch, length, dim_}), k.reshape({batch, in.memory + length, dim_}),
                        sink, in.key_tokens, in.targets, options);
  }

  LmProjection lm_;
  ops::PointerOptions pointer_;
  bool slot_gate_, has_sink_, drop_sink_, qk_norm_;
  int64_t dim_, width_;
  double gate_floor_;
  std::string detach_;
  double lm_aux_, pointer_aux_;
  bool lm_aux_extended_;
  const Tensor *q_ = nullptr, *k_ = nullptr, *sink_ = nullptr, *q_gain_ = nullptr;
  const Tensor *gate_ = nullptr, *gate_bias_ = nullptr;
};

}  // namespace

HeadEntry copy_paste_head() {
  return {"copy_paste", "LM head and a pointer over past positions, mixed by a <copy> gate (CPLM)", fields,
          extra_rows, [](const HeadContext& context, const Settings& settings) -> std::unique_ptr<Head> {
            return std::make_unique<CopyPaste>(context, settings);
          }};
}

}  // namespace copylab::nn
