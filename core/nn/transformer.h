// Transformer: a pre-norm decoder, SmolLM2-style by default (RMSNorm, RoPE, grouped causal attention, SwiGLU,
// no biases), GPT-2-style by choice (LayerNorm, learned positions, ReLU, biases), with or without
// meta-attention.
#pragma once

#include <vector>

#include "core/nn/backbone.h"
#include "core/nn/feed_forward.h"
#include "core/nn/meta_attention.h"
#include "core/nn/norm.h"
#include "core/nn/positions.h"
#include "core/settings.h"

namespace copylab::nn {

// Which layers see a sliding window: none, all, or three of four (layer i sees everything iff i % 4 == 3).
enum class AttentionPattern { full, sliding, hybrid };
// Which blocks have meta-attention.
enum class MetaBlocks { none, all, first, last };

struct TransformerShape {
  int64_t dim, layers, heads, kv_heads, ffn;
};

struct TransformerOptions {
  TransformerShape shape;
  AttentionPattern pattern;
  int64_t window;  // positions that a sliding layer sees, the present one included
  PositionOptions positions;
  NormOptions norm;
  FeedForwardKind mlp;
  bool bias;        // of projections
  double init_std;  // of embeddings and of q, k, v, gate, up; o and down get init_std/sqrt(2·layers), as in
                    // the training code of SmolLM2 (nanotron)
  double dropout;   // on the outputs of attention and feed-forward
  MetaBlocks meta;
  bool meta_dense;  // meta-attention over all rows under a mask, instead of over the gathered ones
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
  void expect_meta(double share) override { meta_share_ = share; }
  double flops_per_token(int64_t length) const override;
  double activations_per_token() const override;
  int64_t cache_numbers(int64_t length) const override;

 private:
  struct Block {
    Norm norm1;
    AttentionLayer attention;
    std::optional<MetaAttention> meta;
    Norm norm2;
    FeedForward feed_forward;
  };
  std::vector<Block> make_blocks(Parameters& parameters) const;
  bool sliding(int64_t layer) const;
  bool has_meta(int64_t layer) const;
  int64_t meta_blocks() const;
  AttentionShape attention_shape() const {
    return {options_.shape.dim, options_.shape.heads, options_.shape.kv_heads};
  }
  Tensor embed(Tape& tape, const ModelInput& in) const;

  TransformerOptions options_;
  double meta_share_ = 0;
  const Tensor* embed_;
  Positions positions_;
  std::vector<Block> blocks_;
  Norm norm_;
};

}  // namespace copylab::nn
