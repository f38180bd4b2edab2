// Optimizer: AdamW and SGD over the flat buffers of a model's parameters.
#pragma once

#include <string>
#include <vector>

#include "core/nn/parameters.h"

namespace copylab::optim {

struct OptimizerOptions {
  enum class Kind { adamw, sgd } kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  // adamw
  double weight_decay =
      0.01;  // decoupled; only on parameters declared with decay (no norms, sink, gain, bias)
};

class Optimizer {
 public:
  // The parameters must be allocated; they outlive the optimizer. State starts at zero.
  Optimizer(nn::Parameters& parameters, const OptimizerOptions& options);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update from the gradients times `grad_scale` (see clip_scale); leaves all gradients at zero.
  // AdamW (Loshchilov & Hutter 2019): w -= lr·(m̂/(√v̂ + eps) + weight_decay·w).
  void step(double lr, double grad_scale = 1.0);

  // State buffers by name, for checkpoints: "m.<parameter>" and "v.<parameter>" (adamw), none for sgd.
  struct State {
    std::string name;
    Tensor tensor;  // a view of the flat state buffer, in the parameter's shape
  };
  std::vector<State> state() const;

  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

  // Bytes of optimizer state for parameters of this flat size.
  static int64_t state_bytes(OptimizerOptions::Kind kind, int64_t flat_size, DType dtype);

 private:
  nn::Parameters& parameters_;
  OptimizerOptions options_;
  DecayRanges ranges_;  // neighbouring parameters that both decay, or do not, are one
  void* range_ends_ = nullptr;
  void* m_ = nullptr;
  void* v_ = nullptr;
  int64_t updates_ = 0;
};

// Euclidean norm of all gradients together.
double gradient_norm(const nn::Parameters& parameters);
// What gradients are multiplied by so that their norm is at most max_norm (0 = no clipping), with the 1e-6 in
// the denominator that PyTorch's clip_grad_norm_ has.
double clip_scale(double norm, double max_norm);

}  // namespace copylab::optim
