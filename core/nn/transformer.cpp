// Transformer: pre-norm blocks x + attention(norm(x)), where asked for x + meta-attention(norm(x)), x +
// feed-forward(norm(x)).
#include "core/nn/transformer.h"

#include <algorithm>
#include <cmath>

#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "core/ops/gather_rows.h"

namespace copylab::nn {
namespace {

std::vector<Field> fields() {
  constexpr double kMany = 1 << 20;
  const auto later = [](Field field) {
    field.later = true;
    return field;
  };
  return {
      {"model.ffn", int64_t{0},
       "inner width of the feed-forward; 0 = 8/3 of the width, rounded up to 32, or 4 times the width with "
       "relu. Meta-attention adds as many weights as 4/3 of the width more here, 2 times the width with relu",
       0, kMany},
      {"model.backbone",
       std::string("full"),
       "full attention, sliding windows, or hybrid (3 sliding layers : 1 full)",
       0,
       0,
       {"full", "sliding", "hybrid"}},
      {"model.window", int64_t{64}, "positions that a sliding layer sees, the present one included", 1,
       kMany},
      {"model.rope_theta", 10000.0, "base of the rotary frequencies", 1.0 + 1e-6, 1e9},
      {"model.norm_eps", 1e-5, "epsilon of the norms", 0.0, 1.0},
      {"model.init_std", 0.0, "standard deviation of initial weights; 0 = 1/sqrt(D)", 0.0, 10.0},
      later({"model.norm",
             std::string("rms"),
             "norm before attention, before the feed-forward and at the end: RMSNorm or LayerNorm",
             0,
             0,
             {"rms", "layer"}}),
      later({"model.mlp",
             std::string("swiglu"),
             "feed-forward: SwiGLU, or max(0, x W1) W2 as in GPT-2, with ReLU",
             0,
             0,
             {"swiglu", "relu"}}),
      later({"model.bias", false,
             "biases in projections and LayerNorm (never in the output of meta-attention)"}),
      later({"model.positions",
             std::string("rope"),
             "rotary angles in attention, learned vectors added to embeddings, or neither",
             0,
             0,
             {"rope", "learned", "none"}}),
      later(
          {"model.max_positions", int64_t{0},
           "positions of the model's table, for stages and tests at longer lengths; 0 = the sequence length "
           "of the run (rope: 4 times that, at least)",
           0, kMany}),
      later({"model.yarn.scale", 1.0, "rope: context extension by YaRN, new length over original; 1 = off",
             1.0, 1e6}),
      later({"model.yarn.original_length", int64_t{0},
             "positions that the parent of this run was trained for; needed where model.yarn.scale is not 1",
             0, kMany}),
      later({"model.yarn.extrapolation_factor", 1.0,
             "share of the high frequencies that YaRN leaves as they are", 0.0, 1.0}),
      later({"model.yarn.attn_factor", 1.0, "factor on cos and sin besides YaRN's 0.1 ln(scale) + 1", 0.0,
             1e3}),
      later({"model.yarn.beta_fast", 32.0,
             "frequencies with more turns than this within the original length stay", 0.0, 1e6}),
      later({"model.yarn.beta_slow", 1.0,
             "frequencies with fewer turns than this within the original length are divided by the scale",
             0.0, 1e6}),
      later({"model.meta_attention",
             std::string("none"),
             "blocks with attention among meta-tokens, after their self-attention",
             0,
             0,
             {"none", "all", "first", "last"}}),
      later({"model.meta_dense", false,
             "meta-attention over all rows under a mask, at T² instead of M² (for comparison; same result)"}),
  };
}

}  // namespace

BackboneEntry transformer_backbone() {
  return {"transformer",
          "pre-norm decoder: attention, full or in windows, feed-forward, and meta-attention by choice",
          fields,
          [](Parameters& parameters, const Settings& settings, int64_t rows,
             int64_t max_length) -> std::unique_ptr<Backbone> {
            return std::make_unique<Transformer>(parameters, transformer_options(settings), rows, max_length);
          }};
}

const std::vector<TransformerPreset>& transformer_presets() {
  static const std::vector<TransformerPreset> presets = {
      {"nano", 64, 4, 4, 4}, {"micro", 128, 6, 4, 4}, {"mini", 256, 8, 8, 8}, {"shape-135M", 576, 30, 9, 3}};
  return presets;
}

namespace {

PositionOptions position_options(const Settings& settings) {
  PositionOptions out;
  const std::string& kind = settings.text("model.positions");
  out.kind = kind == "rope"      ? PositionKind::rope
             : kind == "learned" ? PositionKind::learned
                                 : PositionKind::none;
  out.rope_theta = settings.real("model.rope_theta");
  out.max_positions = settings.integer("model.max_positions");
  const double scale = settings.real("model.yarn.scale");
  if (scale == 1.0) return out;
  const int64_t original = settings.integer("model.yarn.original_length");
  expect(out.kind == PositionKind::rope, "transformer", "model.yarn.scale = {} needs model.positions = rope",
         scale);
  expect(original > 0, "transformer",
         "model.yarn.scale = {} needs model.yarn.original_length, the length trained for", scale);
  ops::Yarn yarn;
  yarn.scale = scale;
  yarn.original_length = static_cast<double>(original);
  yarn.extrapolation_factor = settings.real("model.yarn.extrapolation_factor");
  yarn.attn_factor = settings.real("model.yarn.attn_factor");
  yarn.beta_fast = settings.real("model.yarn.beta_fast");
  yarn.beta_slow = settings.real("model.yarn.beta_slow");
  expect(yarn.beta_slow > 0 && yarn.beta_slow < yarn.beta_fast, "transformer",
         "0 < model.yarn.beta_slow < model.yarn.beta_fast expected: got {}, {}", yarn.beta_slow,
         yarn.beta_fast);
  out.yarn = yarn;
  return out;
}

}  // namespace

TransformerOptions transformer_options(const Settings& settings) {
  TransformerOptions options{};
  TransformerShape& s = options.shape;
  s.dim = settings.integer("model.dim");
  s.layers = settings.integer("model.layers");
  s.heads = settings.integer("model.heads");
  s.kv_heads = settings.integer("model.kv_heads");
  options.mlp = settings.text("model.mlp") == "relu" ? FeedForwardKind::relu : FeedForwardKind::swiglu;
  s.ffn = settings.integer("model.ffn") ? settings.integer("model.ffn") : default_ffn(options.mlp, s.dim);
  expect(s.dim % (2 * s.heads) == 0, "transformer",
         "model.heads = {} must divide model.dim = {} into heads of even width", s.heads, s.dim);
  expect(s.heads % s.kv_heads == 0, "transformer", "model.kv_heads = {} must divide model.heads = {}",
         s.kv_heads, s.heads);
  const std::string& pattern = settings.text("model.backbone");
  options.pattern = pattern == "full"      ? AttentionPattern::full
                    : pattern == "sliding" ? AttentionPattern::sliding
                                           : AttentionPattern::hybrid;
  options.window = settings.integer("model.window");
  options.positions = position_options(settings);
  options.bias = settings.flag("model.bias");
  options.norm = {settings.text("model.norm") == "layer" ? NormKind::layer : NormKind::rms, options.bias,
                  settings.real("model.norm_eps")};
  const double std = settings.real("model.init_std");
  options.init_std = std > 0 ? std : 1.0 / std::sqrt(static_cast<double>(s.dim));
  options.dropout = settings.real("model.dropout");
  const std::string& meta = settings.text("model.meta_attention");
  options.meta = meta == "all"     ? MetaBlocks::all
                 : meta == "first" ? MetaBlocks::first
                 : meta == "last"  ? MetaBlocks::last
                                   : MetaBlocks::none;
  options.meta_dense = settings.flag("model.meta_dense");
  expect(!options.meta_dense || options.meta != MetaBlocks::none, "transformer",
         "model.meta_dense = true needs model.meta_attention");
  return options;
}

Transformer::Transformer(Parameters& parameters, const TransformerOptions& options, int64_t embedding_rows,
                         int64_t max_length)
    : options_(options),
      embed_(&parameters.add("embed.weight", {embedding_rows, options.shape.dim},
                             Init::normal(options.init_std), true)),
      positions_(parameters, options.positions, options.shape.dim, options.shape.dim / options.shape.heads,
                 max_length, Init::normal(options.init_std)),
      blocks_(make_blocks(parameters)),
      norm_(parameters, "norm", options.shape.dim, options.norm) {}

std::vector<Transformer::Block> Transformer::make_blocks(Parameters& parameters) const {
  const int64_t layers = options_.shape.layers;
  const Init in = Init::normal(options_.init_std);
  const Init residual = Init::normal(options_.init_std / std::sqrt(2.0 * static_cast<double>(layers)));
  std::vector<Block> blocks;
  for (int64_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("blocks.{}.", i);
    const auto meta = [&]() -> std::optional<MetaAttention> {
      if (!has_meta(i)) return std::nullopt;
      return MetaAttention(parameters, at + "meta", attention_shape(), options_.norm, in, residual,
                           options_.bias);
    };
    // Braces: parameters are declared in this order.
    blocks.push_back(Block{
        Norm(parameters, at + "norm1", options_.shape.dim, options_.norm),
        AttentionLayer(parameters, at + "attn", attention_shape(), in, residual, options_.bias,
                       options_.bias),
        meta(),
        Norm(parameters, at + "norm2", options_.shape.dim, options_.norm),
        FeedForward(parameters, at + "mlp", options_.mlp, options_.shape.dim, options_.shape.ffn, in,
                    residual, options_.bias),
    });
  }
  return blocks;
}

bool Transformer::sliding(int64_t layer) const {
  return options_.pattern == AttentionPattern::sliding ||
         (options_.pattern == AttentionPattern::hybrid && layer % 4 != 3);
}

bool Transformer::has_meta(int64_t layer) const {
  return options_.meta == MetaBlocks::all || (options_.meta == MetaBlocks::first && layer == 0) ||
         (options_.meta == MetaBlocks::last && layer == options_.shape.layers - 1);
}

int64_t Transformer::meta_blocks() const {
  int64_t blocks = 0;
  for (int64_t i = 0; i < options_.shape.layers; ++i) blocks += has_meta(i);
  return blocks;
}

Tensor Transformer::embed(Tape& tape, const ModelInput& in) const {
  const Tensor& zero = in.intervention.zero_embedding;
  if (!zero) return ops::embedding(tape, *embed_, in.tokens).reshape({in.tokens.size(), options_.shape.dim});
  expect(zero.shape() == in.tokens.shape() && zero.dtype() == DType::u8, "transformer",
         "zero_embedding uint8 {} expected: got {} {}", in.tokens.shape().str(), name_of(zero.dtype()),
         zero.shape().str());
  std::vector<int32_t> ids = to_host<int32_t>(tape.backend(), in.tokens);
  const std::vector<uint8_t> flags = to_host<uint8_t>(tape.backend(), zero);
  for (size_t i = 0; i < ids.size(); ++i)
    if (flags[i]) ids[i] = -1;  // a row of zeros
  return ops::gather_rows(tape, *embed_, tape.constant(ids, {in.tokens.size()}));
}

Tensor Transformer::hidden(Tape& tape, const ModelInput& in) const {
  const Tensor& tokens = in.tokens;
  expect(tokens.shape().rank() == 2, "transformer", "tokens (B, T) expected: got {}", tokens.shape().str());
  const int64_t batch = tokens.dim(0), length = tokens.dim(1);
  const std::vector<int32_t> indices = positions_.indices(tape, batch, length, in.intervention.zero_position);
  const Tensor positions = tape.constant(indices, {batch * length});
  MetaRows meta;
  if (meta_blocks() > 0) meta = meta_rows(tape, in, indices, options_.meta_dense);

  Tensor x = positions_.add_to(tape, embed(tape, in), positions);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& b = blocks_[i];
    ops::AttentionOptions options;
    options.window = sliding(static_cast<int64_t>(i)) ? options_.window : 0;
    options.segment = in.segment;
    options.allowed = in.intervention.allowed;
    options.probe = fmt::format("blocks.{}.attn.probs", i);
    options.probe_lse = fmt::format("blocks.{}.attn.lse", i);
    const Tensor attended =
        b.attention(tape, b.norm1(tape, x), batch, length, positions_, positions, options);
    x = ops::add(tape, x, ops::dropout(tape, attended, options_.dropout));
    if (b.meta && meta.count > 0) {
      const Tensor added = (*b.meta)(tape, x, in, meta, positions_, positions, options_.meta_dense);
      x = ops::add(tape, x, ops::dropout(tape, added, options_.dropout));
    }
    const Tensor fed = b.feed_forward(tape, b.norm2(tape, x));
    x = ops::add(tape, x, ops::dropout(tape, fed, options_.dropout));
    tape.probe(fmt::format("blocks.{}.resid", i), x);
  }
  return norm_(tape, x);
}

double Transformer::flops_per_token(int64_t length) const {
  const auto& [dim, layers, heads, kv_heads, ffn] = options_.shape;
  const int64_t matrices = options_.mlp == FeedForwardKind::swiglu ? 3 : 2;
  const double n = static_cast<double>(length),
               attention = static_cast<double>(attention_shape().parameters());
  // Position t sees min(t + 1, w) keys; scores and values cost 2·D each per key.
  const auto looking_back = [&](double w) {
    return 4.0 * static_cast<double>(dim) * (w * (w + 1) / 2 + (n - w) * w) / n;
  };
  double flops = 0;
  for (int64_t i = 0; i < layers; ++i)
    flops += 2.0 * (attention + static_cast<double>(matrices * dim * ffn)) +
             looking_back(static_cast<double>(sliding(i) ? std::min(options_.window, length) : length));
  // M of the n rows, or all of them, each of which sees half of them on average.
  const double rows = meta_share_ == 0 ? 0 : options_.meta_dense ? n : n * meta_share_;
  const double seen = (rows + 1) / 2;
  return flops + static_cast<double>(meta_blocks()) * rows / n *
                     (2.0 * attention + 4.0 * static_cast<double>(dim) * seen);
}

double Transformer::activations_per_token() const {
  const double dim = static_cast<double>(options_.shape.dim), ffn = static_cast<double>(options_.shape.ffn);
  const double kv = static_cast<double>(attention_shape().kv_dim());
  const double turned = options_.positions.kind == PositionKind::rope ? 1 : 0;
  // Norm, q before and after rotation, attention, o; k before and after rotation, and v.
  const double attention = (4 + turned) * dim + (2 + turned) * kv;
  // Norm, and down; gate, up and their product, or up and its positive part.
  const double feed_forward = 2 * dim + (options_.mlp == FeedForwardKind::swiglu ? 3 : 2) * ffn;
  double numbers = static_cast<double>(options_.shape.layers) * (attention + feed_forward + 2 * dim);
  // Meta-attention: what it adds, and the sum; gathered rows besides.
  const double meta = options_.meta_dense ? attention + dim : meta_share_ * (attention + dim) + 2 * dim;
  if (meta_share_ > 0) numbers += static_cast<double>(meta_blocks()) * meta;
  // Embedding, final norm, and the labelled rows that the head reads; learned vectors, and the sum.
  return numbers + (options_.positions.kind == PositionKind::learned ? 5 : 3) * dim;
}

int64_t Transformer::cache_numbers(int64_t length) const {
  const int64_t kv_dim = attention_shape().kv_dim();
  const int64_t meta = std::llround(meta_share_ * static_cast<double>(length));
  int64_t numbers = 0;
  for (int64_t i = 0; i < options_.shape.layers; ++i)
    numbers += 2 * kv_dim * (sliding(i) ? std::min(options_.window, length) : length);
  return numbers + 2 * kv_dim * meta * meta_blocks();
}

}  // namespace copylab::nn
