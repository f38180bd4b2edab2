// Backbone: what turns tokens into hidden states, below any head.
#pragma once

#include "core/nn/model_input.h"
#include "core/tape.h"

namespace copylab::nn {

class Backbone {
 public:
  virtual ~Backbone() = default;

  // Final normed hidden states (B·T, D) of the batch's tokens (B, T).
  virtual Tensor hidden(Tape& tape, const ModelInput& in) const = 0;
  virtual const Tensor& embedding() const = 0;  // (vocab + extra rows, D)
  // Floating-point operations of one token, forward, averaged over a sequence of `length`.
  virtual double flops_per_token(int64_t length) const = 0;
  // Numbers cached for one sequence of `length` tokens when generating.
  virtual int64_t cache_numbers(int64_t length) const = 0;
};

}  // namespace copylab::nn
