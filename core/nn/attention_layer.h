// AttentionLayer: queries, keys, values and output around ops::attention, for self- and meta-attention.
#pragma once

#include "core/nn/positions.h"
#include "core/nn/projection.h"
#include "core/ops/attention.h"

namespace copylab::nn {

struct AttentionShape {
  int64_t dim, heads, kv_heads;
  int64_t head_dim() const { return dim / heads; }
  int64_t kv_dim() const { return head_dim() * kv_heads; }
  int64_t parameters() const { return 2 * dim * dim + 2 * dim * kv_dim(); }  // of the four matrices
};

class AttentionLayer {
 public:
  // Declares NAME.q, NAME.k, NAME.v and NAME.o; `residual` is how o starts. Biases of o apart from the
  // others.
  AttentionLayer(Parameters& parameters, const std::string& name, const AttentionShape& shape, Init init,
                 Init residual, bool bias, bool output_bias);
  // x (B·T, D) -> (B·T, D), `positions` (B·T) as from Positions::indices.
  Tensor operator()(Tape& tape, const Tensor& x, int64_t batch, int64_t length, const Positions& encoding,
                    const Tensor& positions, const ops::AttentionOptions& options) const;

 private:
  AttentionShape shape_;
  Projection q_, k_, v_, o_;
};

}  // namespace copylab::nn
