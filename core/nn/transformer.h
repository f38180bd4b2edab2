// Transformer: the SmolLM2-style decoder: RMSNorm, RoPE, grouped causal attention, SwiGLU, no biases.
#pragma once

#include <vector>

#include "core/nn/backbone.h"
#include "core/ops/rope.h"
#include "core/settings.h"

namespace copylab::nn {

// Which layers see a sliding window: none, all, or three of four (layer i sees everything iff i % 4 == 3).
enum class AttentionPattern { full, sliding, hybrid };

struct TransformerShape {
  int64_t dim, layers, heads, kv_heads, ffn;
};

struct TransformerOptions {
  TransformerShape shape;
  AttentionPattern pattern;
  int64_t window;  // positions that a sliding layer sees, the present one included
  double rope_theta;
  double norm_eps;
  double init_std;  // of embeddings and of q, k, v, gate, up; o and down get init_std/sqrt(2·layers), as in
                    // the training code of SmolLM2 (nanotron)
  double dropout;   // on the outputs of attention and feed-forward
};

// The shapes of papers L.0; shape-135M is that of SmolLM2-135M.
struct TransformerPreset {
  const char* name;
  int64_t dim, layers, heads, kv_heads;
};
const std::vector<TransformerPreset>& transformer_presets();

BackboneEntry transformer_backbone();
// Reads "model.…"; throws Error where heads do not divide the width or groups do not divide the heads.
TransformerOptions transformer_options(const Settings& settings);

class Transformer : public Backbone {
 public:
  // Declares embed.weight (embedding_rows, D), blocks.{i}.…, norm.weight.
  Transformer(Parameters& parameters, const TransformerOptions& options, int64_t embedding_rows,
              int64_t max_length);

  Tensor hidden(Tape& tape, const ModelInput& in) const override;
  const Tensor& embedding() const override { return *embed_; }
  int64_t dim() const override { return options_.shape.dim; }
  Init init() const override { return Init::normal(options_.init_std); }
  double init_std() const override { return options_.init_std; }
  double flops_per_token(int64_t length) const override;
  int64_t cache_numbers(int64_t length) const override;

 private:
  struct Block {
    const Tensor *norm1, *q, *k, *v, *o, *norm2, *gate, *up, *down;
  };
  bool sliding(int64_t layer) const;
  Tensor attend(Tape& tape, int64_t layer, const Tensor& x, const Tensor& positions, const Tensor& segment,
                int64_t batch, int64_t length) const;
  Tensor feed_forward(Tape& tape, const Block& block, const Tensor& x) const;

  TransformerOptions options_;
  ops::RopeTable rope_;
  const Tensor* embed_;
  std::vector<Block> blocks_;
  const Tensor* norm_;
};

}  // namespace copylab::nn
