// Costs from settings, and the machine's rate.
#include "experiments/plan/estimate.h"

#include <algorithm>
#include <chrono>

#include "core/backend.h"
#include "core/nn/model.h"
#include "core/ops/linear.h"
#include "experiments/config/error.h"
#include "tasks/task.h"

namespace copylab {

Estimate estimate(const Settings& settings) {
  const std::unique_ptr<Task> task = find_task(settings.text("task.name")).make(settings);
  const nn::Model model(cpu_backend(), DType::f32, settings, task->vocab(), task->length());
  Estimate out;
  out.parameters = model.parameters().count();
  out.plan = train_plan(settings, *task);
  out.memory = estimate_memory(settings, out.plan, model.parameters());
  out.flops_per_token = model.flops_per_token(task->length());
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
