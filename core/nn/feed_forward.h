// FeedForward: the two-layer network of a block, gated (SwiGLU) or GPT-2 style with ReLU (papers: §4.3).
#pragma once

#include <optional>

#include "core/nn/projection.h"

namespace copylab::nn {

enum class FeedForwardKind { swiglu, relu };

// Inner width where none is asked for: 4 D of ReLU, and 8/3 D, rounded up to a multiple of 32, of SwiGLU
// (576 -> 1536 as in SmolLM2), which is about as many parameters.
int64_t default_ffn(FeedForwardKind kind, int64_t dim);

class FeedForward {
 public:
  // Declares NAME.gate (SwiGLU alone), NAME.up (F, D) and NAME.down (D, F); `residual` is how down starts.
  FeedForward(Parameters& parameters, const std::string& name, FeedForwardKind kind, int64_t dim, int64_t ffn,
              Init init, Init residual, bool bias);
  // x (…, D) -> shape of x: down(silu(gate x) · up x), or down(relu(up x)).
  Tensor operator()(Tape& tape, const Tensor& x) const;

 private:
  std::optional<Projection> gate_;  // SwiGLU
  Projection up_, down_;
};

}  // namespace copylab::nn
