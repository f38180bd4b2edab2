// Norm: weights that start at one, a bias at zero.
#include "core/nn/norm.h"

#include "core/ops/layer_norm.h"
#include "core/ops/rms_norm.h"

namespace copylab::nn {

Norm::Norm(Parameters& parameters, const std::string& name, int64_t dim, const NormOptions& options)
    : options_(options), weight_(&parameters.add(name + ".weight", {dim}, Init::constant(1.0), false)) {
  if (options_.kind == NormKind::layer && options_.bias)
    bias_ = &parameters.add(name + ".bias", {dim}, Init::constant(0.0), false);
}

Tensor Norm::operator()(Tape& tape, const Tensor& x) const {
  if (options_.kind == NormKind::rms) return ops::rms_norm(tape, x, *weight_, options_.eps);
  return ops::layer_norm(tape, x, *weight_, bias_ ? *bias_ : Tensor(), options_.eps);
}

}  // namespace copylab::nn
