// Model: assembles backbone and head from settings.
#include "core/nn/model.h"

#include "core/nn/transformer.h"

namespace copylab::nn {

std::vector<Field> model_fields() {
  std::vector<Field> fields = transformer_fields();
  fields.push_back({"model.tied", true, "the output matrix is the embedding"});
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

Model::Model(const Backend& backend, DType dtype, const Settings& settings, int64_t vocab, int64_t max_length)
    : parameters_(backend, dtype), vocab_(vocab) {
  const TransformerOptions options = transformer_options(settings);
  const HeadEntry& head = find_head(settings.text("head.kind"));
  const bool tied = settings.flag("model.tied");
  dim_ = options.shape.dim;
  const int64_t rows = vocab + (tied ? head.extra_rows(settings) : 0);
  backbone_ = std::make_unique<Transformer>(parameters_, options, rows, max_length);
  head_ = head.make({parameters_, vocab, dim_, options.init_std, tied, &backbone_->embedding()}, settings);
}

Model::~Model() = default;

Tensor Model::hidden(Tape& tape, const ModelInput& in) const {
  return backbone_->hidden(tape, in);
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
  in.h = hidden(tape, batch);
  return head_->forward(tape, in);
}

double Model::flops_per_token(int64_t length) const {
  return backbone_->flops_per_token(length) + head_->flops_per_token(length);
}

int64_t Model::cache_bytes(int64_t length) const {
  return 4 * (backbone_->cache_numbers(length) + head_->cache_per_token() * length);
}

}  // namespace copylab::nn
