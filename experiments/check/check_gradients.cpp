// Whole-model finite differences.
#include "experiments/check/check_gradients.h"

#include <algorithm>
#include <cmath>

#include "core/nn/model.h"
#include "core/ops/reduce.h"
#include "experiments/check/check_settings.h"
#include "experiments/config/values.h"
#include "experiments/evaluate/split_walk.h"

namespace copylab {
namespace {

constexpr double kTolerance = 1e-6;

// Mean loss of the batch; with `gradient` also its gradient, added to that of the parameters. `carry`: what
// the lanes of a stream remember.
double loss_of(const nn::Model& model, const Batch& batch, const nn::Carry& carry, bool stream,
               bool gradient) {
  Tape tape(model.parameters().backend());
  Tape::Options options;
  options.record = gradient;
  options.seed = 5;  // one dropout mask for all evaluations
  tape.begin(options);
  nn::Carry next = carry;
  const nn::HeadOutput out = model.forward(tape, model_input(tape, batch, stream ? &next : nullptr));
  const Tensor loss = ops::mean(tape, nn::training_loss(tape, out));
  if (gradient) tape.backward(loss);
  return to_host<double>(tape.backend(), loss)[0];
}

}  // namespace

GradientCheck check_model_gradient(const Settings& settings, int64_t entries) {
  const auto task = find_task(settings.text("task.name")).make(settings);
  nn::Model model(cpu_backend(), DType::f64, settings, task->vocab(), task->length());
  model.initialise(3);
  // Some weights start at 0, where an error in another factor would not show.
  for (const auto& entry : model.parameters().entries()) {
    const Random random(4, entry.name);
    for (int64_t i = 0; i < entry.shape.size(); ++i)
      entry.tensor.data<double>()[i] += 0.05 * random.normal(i);
  }
  const bool stream = task->lanes() > 0;
  nn::Carry carry;
  if (stream) {  // the batch under test is the second of the streams
    Tape tape(cpu_backend());
    tape.begin({.record = false, .training = false});
    model.forward(tape, model_input(tape, task->batch(Split::train, 6, 0, task->lanes()), &carry));
  }
  Batch batch = task->batch(Split::train, 6, stream ? 1 : 0, stream ? task->lanes() : 2);
  if (!stream && batch.meta.empty())  // every third token is taken for a meta-token
    for (size_t i = 0; i < batch.tokens.size(); ++i) batch.meta.push_back(i % 3 == 1);
  const auto loss = [&](bool gradient) { return loss_of(model, batch, carry, stream, gradient); };
  loss(true);

  GradientCheck result;
  for (const auto& entry : model.parameters().entries()) {
    double* values = entry.tensor.data<double>();
    const double* gradient = entry.tensor.grad<double>();
    const int64_t size = entry.shape.size();
    double largest = 1e-3;  // below this, compare absolutely: differences carry rounding of about 1e-11
    for (int64_t i = 0; i < size; ++i) largest = std::max(largest, std::abs(gradient[i]));
    const int64_t stride = std::max<int64_t>(1, size / entries);
    for (int64_t i = 0; i < size; i += stride) {
      constexpr double kStep = 1e-5;
      const double before = values[i];
      values[i] = before + kStep;
      const double above = loss(false);
      values[i] = before - kStep;
      const double below = loss(false);
      values[i] = before;
      const double error = std::abs((above - below) / (2 * kStep) - gradient[i]) / largest;
      ++result.compared;
      if (!(error <= result.worst)) {
        result.worst = error;
        result.parameter = entry.name;
      }
    }
  }
  return result;
}

std::vector<std::vector<std::string>> head_variants() {
  std::vector<std::vector<std::string>> variants;
  for (const nn::HeadEntry& head : nn::head_registry()) {
    const std::string kind = std::string("head.kind=") + head.name;
    variants.push_back({kind});
    variants.push_back({kind, "model.tied=false"});
    for (const Field& field : head.fields()) {
      if (field.path == "head.detach" || field.path == "head.backward_rank") continue;
      std::vector<std::string> values = field.choices;
      if (std::holds_alternative<bool>(field.fallback)) values = {"false", "true"};
      if (std::holds_alternative<int64_t>(field.fallback)) values = {"6"};
      if (std::holds_alternative<double>(field.fallback)) values = {"0.1"};
      for (const std::string& value : values) {
        if (format_value(field.fallback) == value) continue;
        variants.push_back({kind, field.path + "=" + value});
        // A factorised output matrix cannot be the embedding.
        if (field.path == "head.rank") variants.back().push_back("model.tied=false");
        if (field.path == "head.lm_aux_over") variants.back().push_back("head.lm_aux=0.1");
      }
    }
  }
  return variants;
}

std::vector<std::vector<std::string>> stream_variants() {
  std::vector<std::vector<std::string>> variants;
  for (const nn::HeadEntry& head : nn::head_registry()) {
    std::vector<std::string> variant = {"model.kind=lstm",     "model.layers=2",
                                        "model.ffn=0",         "model.dropout=0.3",
                                        "model.zoneout_h=0.2", "model.zoneout_c=0.3",
                                        "task.name=text",      "task.corpus=tinyshakespeare",
                                        "task.level=byte",     "task.vocab=0",
                                        "task.lanes=2",        "train.batch=2",
                                        "train.accumulate=1",  std::string("head.kind=") + head.name};
    const std::vector<Field> fields = head.fields();
    const auto has = [&](const char* path) {
      return std::any_of(fields.begin(), fields.end(),
                         [&](const Field& field) { return field.path == path; });
    };
    if (has("head.window")) variant.push_back("head.window=9");
    variants.push_back(variant);
    variants.push_back(variant);
    variants.back().push_back("task.advance=3");
    if (!has("head.key_token")) continue;
    variants.push_back(variant);
    variants.back().push_back("head.key_token=next");
  }
  return variants;
}

std::vector<std::vector<std::string>> block_variants() {
  return {{"model.norm=layer"},
          {"model.norm=layer", "model.bias=true"},
          {"model.mlp=relu"},
          {"model.bias=true"},
          {"model.positions=learned"},
          {"model.positions=none"},
          {"model.yarn.scale=4", "model.yarn.original_length=4"},
          {"model.meta_attention=all"},
          {"model.meta_attention=first"},
          {"model.meta_attention=last"},
          {"model.meta_attention=all", "model.meta_dense=true"},
          {"model.meta_attention=all", "model.norm=layer", "model.mlp=relu", "model.bias=true",
           "model.positions=learned"}};
}

int check_gradients(std::ostream& out) {
  int bad = 0;
  std::vector<std::vector<std::string>> variants = head_variants();
  for (const auto& variant : stream_variants()) variants.push_back(variant);
  for (const auto& variant : block_variants()) variants.push_back(variant);
  for (const std::vector<std::string>& variant : variants) {
    std::vector<std::string> changes = {"task.length=7", "model.dim=8", "model.ffn=12"};
    if (!variant.front().starts_with("model.kind="))
      changes.insert(changes.end(), {"task.vocab=11", "task.period=3"});
    changes.insert(changes.end(), variant.begin(), variant.end());
    const GradientCheck check = check_model_gradient(check_settings(changes), 12);
    const bool ok = check.worst <= kTolerance;
    bad += !ok;
    std::string name;
    for (const std::string& change : variant) name += (name.empty() ? "" : " ") + change;
    out << fmt::format("{:<60} {:>5} entries  worst {:.1e} in {}{}\n", name, check.compared, check.worst,
                       check.parameter, ok ? "" : "  TOO LARGE");
  }
  return bad ? 3 : 0;
}

}  // namespace copylab
