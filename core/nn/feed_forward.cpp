// FeedForward: projections around swiglu or relu.
#include "core/nn/feed_forward.h"

#include "core/ops/elementwise.h"
#include "core/ops/swiglu.h"

namespace copylab::nn {
namespace {

std::optional<Projection> gate_of(Parameters& parameters, const std::string& name, FeedForwardKind kind,
                                  int64_t dim, int64_t ffn, Init init, bool bias) {
  if (kind == FeedForwardKind::relu) return std::nullopt;
  return Projection(parameters, name + ".gate", ffn, dim, init, bias);
}

}  // namespace

int64_t default_ffn(FeedForwardKind kind, int64_t dim) {
  return kind == FeedForwardKind::relu ? 4 * dim : (8 * dim / 3 + 31) / 32 * 32;
}

FeedForward::FeedForward(Parameters& parameters, const std::string& name, FeedForwardKind kind, int64_t dim,
                         int64_t ffn, Init init, Init residual, bool bias)
    : gate_(gate_of(parameters, name, kind, dim, ffn, init, bias)),
      up_(parameters, name + ".up", ffn, dim, init, bias),
      down_(parameters, name + ".down", dim, ffn, residual, bias) {}

Tensor FeedForward::operator()(Tape& tape, const Tensor& x) const {
  if (!gate_) return down_(tape, ops::relu(tape, up_(tape, x)));
  const Tensor up = up_(tape, x);  // before the gate: gradients of x are summed in the reverse order
  return down_(tape, ops::swiglu(tape, (*gate_)(tape, x), up));
}

}  // namespace copylab::nn
