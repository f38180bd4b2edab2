// Transformer: pre-norm blocks x + attention(norm(x)), x + swiglu(norm(x)).
#include "core/nn/transformer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops/attention.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "core/ops/linear.h"
#include "core/ops/rms_norm.h"
#include "core/ops/swiglu.h"

namespace copylab::nn {
namespace {

// Sequences may be this many times longer than the length that the model was built for, at positions that no
// training has seen; the table of angles is small.
constexpr int64_t kReach = 4;

// 8/3 of the width, rounded up to a multiple of 32: 576 -> 1536 as in SmolLM2.
int64_t default_ffn(int64_t dim) {
  return (8 * dim / 3 + 31) / 32 * 32;
}

std::vector<Field> fields() {
  std::vector<std::string> names;
  for (const TransformerPreset& preset : transformer_presets()) names.push_back(preset.name);
  const TransformerPreset& nano = transformer_presets().front();
  constexpr double kMany = 1 << 20;
  return {
      {"model.preset", std::string(nano.name),
       "named shape: the defaults of model.dim, model.layers, model.heads and model.kv_heads", 0, 0, names,
       false},
      {"model.dim", nano.dim, "width D", 2, kMany},
      {"model.layers", nano.layers, "blocks", 1, 4096},
      {"model.heads", nano.heads, "query heads", 1, 4096},
      {"model.kv_heads", nano.kv_heads, "key/value heads, each shared by heads/kv_heads query heads", 1,
       4096},
      {"model.ffn", int64_t{0}, "inner width of the SwiGLU; 0 = 8/3 of the width, rounded up to 32", 0,
       kMany},
      {"model.backbone",
       std::string("full"),
       "full attention, sliding windows, or hybrid (3 sliding layers : 1 full)",
       0,
       0,
       {"full", "sliding", "hybrid"}},
      {"model.window", int64_t{64}, "positions that a sliding layer sees, the present one included", 1,
       kMany},
      {"model.rope_theta", 10000.0, "base of the rotary frequencies", 1.0, 1e9},
      {"model.norm_eps", 1e-5, "epsilon of RMSNorm", 0.0, 1.0},
      {"model.init_std", 0.0, "standard deviation of initial weights; 0 = 1/sqrt(D)", 0.0, 10.0},
      {"model.dropout", 0.0,
       "dropout rate: transformer, of attention and feed-forward outputs; lstm, of embeddings, layer inputs "
       "and "
       "output, with one mask for all positions of a sequence",
       0.0, 0.99},
  };
}

// A block: two norms, q before and after rotation, attention, o, down and two residual sums (9 D); k before
// and after rotation, and v (3 KV); gate, up and their product (3 F). Embedding, final norm, and the labelled
// rows that the head reads.
double activations_per_position(const Settings& settings) {
  const TransformerShape s = transformer_options(settings).shape;
  const double dim = static_cast<double>(s.dim), ffn = static_cast<double>(s.ffn);
  const double kv = dim / static_cast<double>(s.heads) * static_cast<double>(s.kv_heads);
  return static_cast<double>(s.layers) * (9 * dim + 3 * kv + 3 * ffn) + 3 * dim;
}

}  // namespace

BackboneEntry transformer_backbone() {
  return {"transformer", "SmolLM2-style decoder: attention, full or in windows, and SwiGLU", fields,
          [](Parameters& parameters, const Settings& settings, int64_t rows,
             int64_t max_length) -> std::unique_ptr<Backbone> {
            return std::make_unique<Transformer>(parameters, transformer_options(settings), rows, max_length);
          },
          activations_per_position};
}

const std::vector<TransformerPreset>& transformer_presets() {
  static const std::vector<TransformerPreset> presets = {
      {"nano", 64, 4, 4, 4}, {"micro", 128, 6, 4, 4}, {"mini", 256, 8, 8, 8}, {"shape-135M", 576, 30, 9, 3}};
  return presets;
}

TransformerOptions transformer_options(const Settings& settings) {
  TransformerOptions options{};
  TransformerShape& s = options.shape;
  s.dim = settings.integer("model.dim");
  s.layers = settings.integer("model.layers");
  s.heads = settings.integer("model.heads");
  s.kv_heads = settings.integer("model.kv_heads");
  s.ffn = settings.integer("model.ffn") ? settings.integer("model.ffn") : default_ffn(s.dim);
  expect(s.dim % (2 * s.heads) == 0, "transformer",
         "model.heads = {} must divide model.dim = {} into heads of even width", s.heads, s.dim);
  expect(s.heads % s.kv_heads == 0, "transformer", "model.kv_heads = {} must divide model.heads = {}",
         s.kv_heads, s.heads);
  const std::string& pattern = settings.text("model.backbone");
  options.pattern = pattern == "full"      ? AttentionPattern::full
                    : pattern == "sliding" ? AttentionPattern::sliding
                                           : AttentionPattern::hybrid;
  options.window = settings.integer("model.window");
  options.rope_theta = settings.real("model.rope_theta");
  options.norm_eps = settings.real("model.norm_eps");
  const double std = settings.real("model.init_std");
  options.init_std = std > 0 ? std : 1.0 / std::sqrt(static_cast<double>(s.dim));
  options.dropout = settings.real("model.dropout");
  return options;
}

Transformer::Transformer(Parameters& parameters, const TransformerOptions& options, int64_t embedding_rows,
                         int64_t max_length)
    : options_(options),
      rope_(parameters.backend(), parameters.dtype(), options.shape.dim / options.shape.heads,
            options.rope_theta, kReach * max_length) {
  const auto& [dim, layers, heads, kv_heads, ffn] = options_.shape;
  const int64_t kv_dim = dim / heads * kv_heads;
  const Init in = Init::normal(options_.init_std);
  const Init residual = Init::normal(options_.init_std / std::sqrt(2.0 * static_cast<double>(layers)));
  const Init one = Init::constant(1.0);

  embed_ = &parameters.add("embed.weight", {embedding_rows, dim}, in, true);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("blocks.{}.", i);
    const auto add = [&](const char* name, Shape shape, Init init, bool decay) {
      return &parameters.add(at + name, shape, init, decay);
    };
    Block b{};
    b.norm1 = add("norm1.weight", {dim}, one, false);
    b.q = add("attn.q.weight", {dim, dim}, in, true);
    b.k = add("attn.k.weight", {kv_dim, dim}, in, true);
    b.v = add("attn.v.weight", {kv_dim, dim}, in, true);
    b.o = add("attn.o.weight", {dim, dim}, residual, true);
    b.norm2 = add("norm2.weight", {dim}, one, false);
    b.gate = add("mlp.gate.weight", {ffn, dim}, in, true);
    b.up = add("mlp.up.weight", {ffn, dim}, in, true);
    b.down = add("mlp.down.weight", {dim, ffn}, residual, true);
    blocks_.push_back(b);
  }
  norm_ = &parameters.add("norm.weight", {dim}, one, false);
}

bool Transformer::sliding(int64_t layer) const {
  return options_.pattern == AttentionPattern::sliding ||
         (options_.pattern == AttentionPattern::hybrid && layer % 4 != 3);
}

Tensor Transformer::attend(Tape& tape, int64_t layer, const Tensor& x, const Tensor& positions,
                           const Tensor& segment, int64_t batch, int64_t length) const {
  const Block& b = blocks_[layer];
  const TransformerShape& s = options_.shape;
  const int64_t head_dim = s.dim / s.heads;
  const Shape q_shape{batch, length, s.heads, head_dim}, kv_shape{batch, length, s.kv_heads, head_dim};
  const Tensor q = ops::rope(tape, ops::linear(tape, x, *b.q).reshape(q_shape), rope_, positions);
  const Tensor k = ops::rope(tape, ops::linear(tape, x, *b.k).reshape(kv_shape), rope_, positions);
  const Tensor v = ops::linear(tape, x, *b.v).reshape(kv_shape);
  ops::AttentionOptions options;
  options.window = sliding(layer) ? options_.window : 0;
  options.segment = segment;
  options.probe = fmt::format("blocks.{}.attn.probs", layer);
  const Tensor out = ops::attention(tape, q, k, v, options);
  return ops::linear(tape, out.reshape({batch * length, s.dim}), *b.o);
}

Tensor Transformer::feed_forward(Tape& tape, const Block& b, const Tensor& x) const {
  const Tensor inner = ops::swiglu(tape, ops::linear(tape, x, *b.gate), ops::linear(tape, x, *b.up));
  return ops::linear(tape, inner, *b.down);
}

Tensor Transformer::hidden(Tape& tape, const ModelInput& in) const {
  const Tensor& tokens = in.tokens;
  expect(tokens.shape().rank() == 2, "transformer", "tokens (B, T) expected: got {}", tokens.shape().str());
  const int64_t batch = tokens.dim(0), length = tokens.dim(1);
  std::vector<int32_t> host(batch * length);
  for (int64_t i = 0; i < batch; ++i)
    std::iota(host.begin() + i * length, host.begin() + (i + 1) * length, 0);
  const Tensor positions = tape.constant(host, {batch * length});

  Tensor x = ops::embedding(tape, *embed_, tokens).reshape({batch * length, options_.shape.dim});
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& b = blocks_[i];
    const Tensor attended =
        attend(tape, static_cast<int64_t>(i), ops::rms_norm(tape, x, *b.norm1, options_.norm_eps), positions,
               in.segment, batch, length);
    x = ops::add(tape, x, ops::dropout(tape, attended, options_.dropout));
    const Tensor fed = feed_forward(tape, b, ops::rms_norm(tape, x, *b.norm2, options_.norm_eps));
    x = ops::add(tape, x, ops::dropout(tape, fed, options_.dropout));
    tape.probe(fmt::format("blocks.{}.resid", i), x);
  }
  return ops::rms_norm(tape, x, *norm_, options_.norm_eps);
}

double Transformer::flops_per_token(int64_t length) const {
  const auto& [dim, layers, heads, kv_heads, ffn] = options_.shape;
  const int64_t kv_dim = dim / heads * kv_heads;
  double flops = 0;
  for (int64_t i = 0; i < layers; ++i) {
    flops += 2.0 * static_cast<double>(2 * dim * dim + 2 * dim * kv_dim + 3 * dim * ffn);
    // Position t sees min(t + 1, window) keys; scores and values cost 2·D each per key.
    const double w = static_cast<double>(sliding(i) ? std::min(options_.window, length) : length);
    const double n = static_cast<double>(length);
    const double seen = (w * (w + 1) / 2 + (n - w) * w) / n;
    flops += 4.0 * static_cast<double>(dim) * seen;
  }
  return flops;
}

int64_t Transformer::cache_numbers(int64_t length) const {
  const TransformerShape& s = options_.shape;
  const int64_t kv_dim = s.dim / s.heads * s.kv_heads;
  int64_t numbers = 0;
  for (int64_t i = 0; i < s.layers; ++i)
    numbers += 2 * kv_dim * (sliding(i) ? std::min(options_.window, length) : length);
  return numbers;
}

}  // namespace copylab::nn
