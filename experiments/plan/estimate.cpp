// Costs from settings, and the machine's rate.
#include "experiments/plan/estimate.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "core/backend.h"
#include "core/nn/model.h"
#include "core/ops/linear.h"
#include "experiments/config/error.h"
#include "experiments/config/run_fields.h"
#include "experiments/measures/measure.h"
#include "experiments/train/trainer.h"
#include "tasks/task.h"

namespace copylab {

namespace {

double evaluated_sequences(const Settings& settings, const TrainPlan& plan) {
  int64_t times = plan.steps > 0 ? 1 : 0;  // after the last update
  if (const int64_t every = settings.integer("eval.every"); every > 0)
    times += (plan.steps + every - 1) / every;
  return static_cast<double>(times * settings.integer("eval.sequences") +
                             settings.integer("eval.test_sequences"));
}

double measure_flops(const std::string& name, const Settings& settings, const Task& task, nn::Model& model,
                     const TrainPlan& plan) {
  const MeasureEntry& measure = find_measure(name);
  if (!measure.plan) return 0;
  nn::Model* initial = plan.steps > 0 ? &model : nullptr;  // a run of no updates is its own
  const auto seed = static_cast<uint64_t>(settings.integer("train.seed"));
  const double once = measure.plan({model, initial, task, settings, cpu_backend(), seed});
  const bool over_training = settings.flag("measure." + name + ".over_training");
  return once * static_cast<double>(1 + (over_training ? plan.kept.size() : 0));
}

}  // namespace

Estimate estimate(const Settings& settings) {
  const std::unique_ptr<Task> task = find_task(settings.text("task.name")).make(settings);
  nn::Model model(cpu_backend(), DType::f32, settings, task->vocab(), task->length());
  model.expect_meta(meta_share(*task));
  Estimate out;
  out.parameters = model.parameters().count();
  out.plan = train_plan(settings, *task);
  out.memory = estimate_memory(settings, out.plan, model);
  out.flops_per_token = model.flops_per_token(task->length(), task->lanes() > 0);
  out.evaluation_flops =
      evaluated_sequences(settings, out.plan) * static_cast<double>(task->length()) * out.flops_per_token;
  for (const std::string& name : measure_names(settings.text("run.measures")))
    out.measure_flops += measure_flops(name, settings, *task, model, out.plan);
  out.budget = task->budget(out.plan.steps * out.plan.sequences_per_step());
  return out;
}

void expect_consistent(const Settings& settings) {
  try {
    estimate(settings);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

void expect_continues(const Settings& parent, const Settings& settings) {
  const auto shapes = [](const Settings& of) {
    const std::unique_ptr<Task> task = find_task(of.text("task.name")).make(of);
    const nn::Model model(cpu_backend(), DType::f32, of, task->vocab(), task->length());
    std::map<std::string, std::string> found;
    for (const auto& entry : model.parameters().entries()) found[entry.name] = entry.shape.str();
    return found;
  };
  const auto before = shapes(parent), after = shapes(settings);
  const auto text = [](const auto& found, const std::string& name) {
    const auto it = found.find(name);
    return it == found.end() ? std::string("none") : it->second;
  };
  std::set<std::string> names;
  for (const auto* found : {&before, &after})
    for (const auto& [name, shape] : *found) names.insert(name);
  for (const std::string& name : names)
    if (text(before, name) != text(after, name))
      throw ConfigError(fmt::format(
          "{}: expected {} as in the stage before, got {}: stages share task.vocab (V) and model.*", name,
          text(before, name), text(after, name)));
}

double matrix_rate() {
  constexpr int64_t n = 384;
  Tape tape(cpu_backend());
  std::vector<float> values(n * n, 0.5f);
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    Tape::Options options;
    options.record = false;
    tape.begin(options);
    const Tensor x = tape.constant(values, {n, n}), w = tape.constant(values, {n, n});
    const auto begin = std::chrono::steady_clock::now();
    ops::linear(tape, x, w);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, 2.0 * n * n * n / seconds);
  }
  return best;
}

}  // namespace copylab
