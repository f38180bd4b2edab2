// Memory: a count of the numbers that one position keeps for the backward pass.
#include "experiments/train/memory.h"

#include <algorithm>
#include <fstream>

#include "core/nn/backbone.h"

namespace copylab {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

double gib(int64_t bytes) {
  return static_cast<double>(bytes) / kGiB;
}

}  // namespace

std::string MemoryEstimate::text() const {
  return fmt::format(
      "{:.2f} GiB (parameters {:.2f}, gradients {:.2f}, optimizer {:.2f}, activations {:.2f}, evaluation "
      "{:.2f})",
      gib(total()), gib(parameters), gib(gradients), gib(optimizer), gib(activations), gib(evaluation));
}

MemoryEstimate estimate_memory(const Settings& settings, const TrainPlan& plan, const nn::Model& model) {
  MemoryEstimate m;
  const nn::Parameters& parameters = model.parameters();
  const int64_t scalar = static_cast<int64_t>(size_of(parameters.dtype()));
  m.parameters = m.gradients = scalar * parameters.flat_size();
  m.optimizer =
      optim::Optimizer::state_bytes(plan.optimizer.kind, parameters.flat_size(), parameters.dtype());
  // A stream's memory adds to the keys that a pointer looks at.
  const bool stream = settings.has("task.lanes") && settings.integer("task.lanes") > 0;
  const int64_t memory = stream ? model.head().memory() : 0;
  const double more = static_cast<double>(memory) / static_cast<double>(plan.length);
  double per_position =
      model.backbone().activations_per_token() + model.head().activations_per_token(1 + more);
  if (memory > 0)  // the memory, which has no gradient, and all keys in one array
    per_position += (1 + 1.5 * more) * static_cast<double>(model.dim());
  const auto bytes = [&](int64_t sequences, double numbers) {
    return static_cast<int64_t>(numbers * static_cast<double>(sequences * plan.length * scalar));
  };
  m.batch = plan.batch;
  m.activations = bytes(plan.batch, 2 * per_position);
  m.evaluation = bytes(stream ? plan.batch : settings.integer("eval.batch"),
                       per_position + model.head().decision_per_token(memory + plan.length));
  return m;
}

int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  while (in >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    in.ignore(256, '\n');
  }
  return 0;
}

std::string memory_problem(const MemoryEstimate& m, int64_t available) {
  if (available == 0 || m.total() <= available) return "";
  const int64_t fixed = m.total() - m.activations;
  const int64_t fits =
      available > fixed && m.activations > 0
          ? static_cast<int64_t>(static_cast<double>(available - fixed) / static_cast<double>(m.activations) *
                                 static_cast<double>(m.batch))
          : 0;
  return fmt::format("needs {}, {:.2f} GiB are available; {}", m.text(), gib(available),
                     fits > 0 ? fmt::format("train.batch={} would fit", fits)
                              : "no train.batch would fit: use a smaller model or eval.batch");
}

}  // namespace copylab
