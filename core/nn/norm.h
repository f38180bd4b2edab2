// Norm: a normalisation of rows with learned weights, as RMSNorm or as LayerNorm.
#pragma once

#include "core/nn/parameters.h"

namespace copylab::nn {

enum class NormKind { rms, layer };

struct NormOptions {
  NormKind kind = NormKind::rms;
  bool bias = false;  // of LayerNorm; RMSNorm has none
  double eps = 1e-5;
};

class Norm {
 public:
  // Declares NAME.weight (D) and, with a bias, NAME.bias (D).
  Norm(Parameters& parameters, const std::string& name, int64_t dim, const NormOptions& options);
  // x (…, D) -> shape of x.
  Tensor operator()(Tape& tape, const Tensor& x) const;

 private:
  NormOptions options_;
  const Tensor* weight_;
  const Tensor* bias_ = nullptr;
};

}  // namespace copylab::nn
