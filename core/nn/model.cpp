// Model: assembles backbone and head from settings.
#include "core/nn/model.h"

#include <algorithm>
#include <set>

#include "core/nn/backbone.h"
#include "core/nn/transformer.h"
#include "core/ops/concat_positions.h"
#include "core/ops/locked_dropout.h"

namespace copylab::nn {

namespace {

// What every backbone reads, and what comes with model.preset.
std::vector<Field> shared_fields() {
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
      {"model.dropout", 0.0,
       "dropout rate: transformer, of attention and feed-forward outputs; lstm, of embeddings, layer inputs "
       "and output, with one mask for all positions of a sequence",
       0.0, 0.99},
  };
}

// A setting that only another backbone reads would make another run with the same numbers.
void expect_settings_of(const BackboneEntry& chosen, const Settings& settings) {
  std::set<std::string> own;
  for (const Field& field : chosen.fields()) own.insert(field.path);
  for (const BackboneEntry& other : backbone_registry())
    for (const Field& field : other.fields()) {
      const Value& value = settings.at(field.path);
      expect(own.count(field.path) || value == field.fallback, "model",
             "{} = {} needs model.kind = {}: got {}", field.path, format_value(value), other.name,
             chosen.name);
    }
}

}  // namespace

std::vector<Field> model_fields() {
  std::vector<Field> fields = shared_fields();
  std::vector<std::string> kinds;
  for (const BackboneEntry& entry : backbone_registry()) {
    kinds.push_back(entry.name);
    const std::vector<Field> own = entry.fields();
    fields.insert(fields.end(), own.begin(), own.end());
  }
  fields.push_back({"model.tied", true, "the output matrix is the embedding"});
  fields.push_back({.path = "model.kind",
                    .fallback = kinds.front(),
                    .doc = "the backbone: transformer, or lstm, of model.dim units in model.layers layers",
                    .choices = kinds,
                    .later = true});
  return fields;
}

std::vector<std::pair<std::string, std::vector<std::pair<std::string, Value>>>> model_presets() {
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, Value>>>> out;
  for (const TransformerPreset& p : transformer_presets())
    out.push_back({p.name,
                   {{"model.dim", p.dim},
                    {"model.layers", p.layers},
                    {"model.heads", p.heads},
                    {"model.kv_heads", p.kv_heads}}});
  return out;
}

namespace {

// What the lanes remember after the batch of `in`: of the memory's states and those of h (B·T, D), the last M
// up to the end of the positions that the stream moves on by.
void remember(const Backend& backend, const HeadInput& in, const Tensor& h, int64_t memory) {
  Carry& carry = *in.carry;
  const int64_t batch = in.tokens.dim(0), length = in.tokens.dim(1), dim = h.dim(1);
  const int64_t advance = in.advance > 0 ? in.advance : length;
  std::vector<double> states(batch * memory * dim, 0.0);
  std::vector<int32_t> read(batch * memory, -1);
  if (memory > 0) {
    const std::vector<int32_t> tokens = to_host<int32_t>(backend, in.tokens);
    dispatch_float(h.dtype(), "model", [&](auto tag) {
      const auto host = to_host<decltype(tag)>(backend, h);
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t m = 0; m < memory; ++m) {
          const int64_t t = advance - memory + m, to = b * memory + m;  // t < 0: of the old memory
          if (t >= 0) {
            read[to] = tokens[b * length + t];
            std::copy_n(host.begin() + (b * length + t) * dim, dim, states.begin() + to * dim);
          } else if (!carry.empty()) {
            const int64_t from = b * memory + memory + t;
            read[to] = carry.tokens[from];
            std::copy_n(carry.states.begin() + from * dim, dim, states.begin() + to * dim);
          }
        }
    });
  }
  carry.rows = batch;
  carry.dim = dim;
  carry.memory = memory;
  carry.states = std::move(states);
  carry.tokens = std::move(read);
}

}  // namespace

Model::Model(const Backend& backend, DType dtype, const Settings& settings, int64_t vocab, int64_t max_length)
    : parameters_(backend, dtype), vocab_(vocab) {
  const BackboneEntry& backbone = find_backbone(settings.text("model.kind"));
  expect_settings_of(backbone, settings);
  const HeadEntry& head = find_head(settings.text("head.kind"));
  const bool tied = settings.flag("model.tied");
  const int64_t rows = vocab + (tied ? head.extra_rows(settings) : 0);
  backbone_ = backbone.make(parameters_, settings, rows, max_length);
  head_ = head.make({parameters_, vocab, backbone_->dim(), backbone_->init(), backbone_->init_std(), tied,
                     &backbone_->embedding()},
                    settings);
}

Model::~Model() = default;

int64_t Model::dim() const {
  return backbone_->dim();
}

bool Model::carries_context() const {
  return backbone_->recurrent() && (head_->cache_per_token() == 0 || head_->memory() > 0);
}

Tensor Model::hidden(Tape& tape, const ModelInput& in) const {
  const Tensor h = backbone_->hidden(tape, in);
  tape.probe("hidden", h);
  return h;
}

HeadOutput Model::forward(Tape& tape, const ModelInput& batch) const {
  HeadInput in;
  static_cast<ModelInput&>(in) = batch;
  expect(in.targets.shape() == in.tokens.shape(), "model", "tokens and targets of one shape: got {}, {}",
         in.tokens.shape().str(), in.targets.shape().str());
  const std::vector<int32_t> targets = to_host<int32_t>(tape.backend(), in.targets);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    expect(targets[i] < vocab_, "model", "target {} at position {} is outside of the vocabulary of {}",
           targets[i], i, vocab_);
    in.rows.push_back(static_cast<int32_t>(i));
    in.row_targets.push_back(targets[i]);
  }
  const Tensor h = hidden(tape, batch);
  point_back(tape, h, in);
  if (in.carry) {
    const Backend& backend = tape.backend();
    tape.when_computed([in, h, &backend, memory = head_->memory()] { remember(backend, in, h, memory); });
  }
  return head_->forward(tape, in);
}

void Model::point_back(Tape& tape, const Tensor& h, HeadInput& in) const {
  const int64_t rows = in.tokens.dim(0), length = in.tokens.dim(1), width = dim();
  const Random mask = tape.random("dropout");  // one for a sequence and its memory
  const auto dropped = [&](const Tensor& x) {
    return ops::locked_dropout(tape, x, backbone_->output_dropout(), mask);
  };
  const Tensor states = dropped(h.reshape({rows, length, width}));
  in.h = in.keys = states.reshape({rows * length, width});
  in.key_tokens = in.tokens;
  if (!in.carry || head_->memory() == 0) return;
  in.memory = head_->memory();
  Carry nothing;  // a stream's start: M empty keys
  nothing.states.assign(rows * in.memory * width, 0.0);
  nothing.tokens.assign(rows * in.memory, -1);
  const Carry* carry = in.carry->empty() ? &nothing : in.carry;
  expect(in.carry->empty() || (carry->rows == rows && carry->memory == in.memory && carry->dim == width),
         "model", "a memory of ({}, {}, {}) carried on expected: got ({}, {}, {})", rows, in.memory, width,
         carry->rows, carry->memory, carry->dim);
  expect(!in.segment, "model", "a stream with numbers of documents cannot point back across batches");
  dispatch_float(h.dtype(), "model", [&](auto tag) {
    using T = decltype(tag);
    const Tensor past =
        tape.constant(std::vector<T>(carry->states.begin(), carry->states.end()), {rows, in.memory, width});
    in.keys =
        ops::concat_positions(tape, dropped(past), states).reshape({rows * (in.memory + length), width});
  });
  std::vector<int32_t> all;
  const std::vector<int32_t> tokens = to_host<int32_t>(tape.backend(), in.tokens);
  for (int64_t b = 0; b < rows; ++b) {
    const auto past = carry->tokens.begin() + b * in.memory, now = tokens.begin() + b * length;
    all.insert(all.end(), past, past + in.memory);
    all.insert(all.end(), now, now + length);
  }
  in.key_tokens = tape.constant(all, {rows, in.memory + length});
}

void Model::expect_meta(double share) {
  backbone_->expect_meta(share);
}

double Model::flops_per_token(int64_t length, bool stream) const {
  constexpr int64_t kEndless = int64_t{1} << 30;  // a stream's pointer has a whole window behind it
  const int64_t seen = stream && head_->memory() > 0 ? kEndless : length;
  return backbone_->flops_per_token(length) + head_->flops_per_token(seen);
}

int64_t Model::cache_bytes(int64_t length) const {
  const int64_t window = head_->memory() + 1;
  const int64_t keys = head_->memory() > 0 ? std::min(window, length) : length;
  return 4 * (backbone_->cache_numbers(length) + head_->cache_per_token() * keys);
}

}  // namespace copylab::nn
