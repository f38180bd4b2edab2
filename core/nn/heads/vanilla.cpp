// The plain language-model head: softmax over the vocabulary.
#include "core/nn/heads/heads.h"
#include "core/nn/heads/lm_projection.h"
#include "core/ops/elementwise.h"
#include "core/ops/gather_rows.h"

namespace copylab::nn {
namespace {

class Vanilla : public Head {
 public:
  Vanilla(const HeadContext& context, const Settings& settings) : lm_(context, settings, 0) {}

  HeadOutput forward(Tape& tape, const HeadInput& in) const override {
    const int64_t labelled = static_cast<int64_t>(in.rows.size());
    const Tensor h = select_rows(tape, in.h, in.rows);
    const auto out = lm_.logits(tape, h, tape.constant(in.row_targets, {labelled, 1}));
    HeadOutput result;
    result.nll = ops::sub(tape, out.lse, out.logits.reshape({labelled}));
    result.lm_nll = result.nll;
    if (in.want_argmax) result.argmax = result.lm_argmax = out.argmax;
    return result;
  }

  double flops_per_token(int64_t) const override { return lm_.flops(); }

 private:
  LmProjection lm_;
};

}  // namespace

HeadEntry vanilla_head() {
  return {"vanilla", "softmax over the vocabulary", lm_projection_fields,
          [](const Settings&) { return int64_t{0}; },
          [](const HeadContext& context, const Settings& settings) -> std::unique_ptr<Head> {
            return std::make_unique<Vanilla>(context, settings);
          }};
}

}  // namespace copylab::nn
