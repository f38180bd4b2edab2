// AttentionLayer: projections, rotation, attention, projection.
#include "core/nn/attention_layer.h"

namespace copylab::nn {

AttentionLayer::AttentionLayer(Parameters& parameters, const std::string& name, const AttentionShape& shape,
                               Init init, Init residual, bool bias, bool output_bias)
    : shape_(shape),
      q_(parameters, name + ".q", shape.dim, shape.dim, init, bias),
      k_(parameters, name + ".k", shape.kv_dim(), shape.dim, init, bias),
      v_(parameters, name + ".v", shape.kv_dim(), shape.dim, init, bias),
      o_(parameters, name + ".o", shape.dim, shape.dim, residual, output_bias) {}

Tensor AttentionLayer::operator()(Tape& tape, const Tensor& x, int64_t batch, int64_t length,
                                  const Positions& encoding, const Tensor& positions,
                                  const ops::AttentionOptions& options) const {
  const int64_t d = shape_.head_dim();
  const Shape q_shape{batch, length, shape_.heads, d}, kv_shape{batch, length, shape_.kv_heads, d};
  const Tensor q = encoding.turn(tape, q_(tape, x).reshape(q_shape), positions);
  const Tensor k = encoding.turn(tape, k_(tape, x).reshape(kv_shape), positions);
  const Tensor v = v_(tape, x).reshape(kv_shape);
  return o_(tape, ops::attention(tape, q, k, v, options).reshape({batch * length, shape_.dim}));
}

}  // namespace copylab::nn
