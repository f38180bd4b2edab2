// Projection: a learned matrix, with or without a bias.
#pragma once

#include "core/nn/parameters.h"

namespace copylab::nn {

class Projection {
 public:
  // Declares NAME.weight (out, in) and, with a bias, NAME.bias (out), which starts at zero.
  Projection(Parameters& parameters, const std::string& name, int64_t out, int64_t in, Init init, bool bias);
  // x (…, in) -> (…, out).
  Tensor operator()(Tape& tape, const Tensor& x) const;

 private:
  const Tensor* weight_;
  const Tensor* bias_ = nullptr;
};

}  // namespace copylab::nn
