// Projection: ops::linear with its parameters.
#include "core/nn/projection.h"

#include "core/ops/linear.h"

namespace copylab::nn {

Projection::Projection(Parameters& parameters, const std::string& name, int64_t out, int64_t in, Init init,
                       bool bias)
    : weight_(&parameters.add(name + ".weight", {out, in}, init, true)) {
  if (bias) bias_ = &parameters.add(name + ".bias", {out}, Init::constant(0.0), false);
}

Tensor Projection::operator()(Tape& tape, const Tensor& x) const {
  return ops::linear(tape, x, *weight_, bias_ ? *bias_ : Tensor());
}

}  // namespace copylab::nn
