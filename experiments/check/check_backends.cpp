// Rounding against bugs.
#include "experiments/check/check_backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/cuda/gpu.h"
#include "core/nn/head.h"
#include "core/nn/model.h"
#include "core/ops/reduce.h"
#include "experiments/check/check_gradients.h"
#include "experiments/check/check_settings.h"
#include "experiments/check/op_cases.h"
#include "experiments/check/training_hash.h"
#include "experiments/evaluate/split_walk.h"

namespace copylab {
namespace {

// float32 rounds at 6e-8, and gradients of these small models lose one to two digits.
constexpr double kTolerance = 2e-5;
// Losses and gradients below this are compared absolutely: they come from probabilities near 1, of which
// float32 sees steps of 1e-7.
constexpr double kSmallest = 1e-2;
// float64 rounds at 1e-16, and the smaller of two correct answers may be a sum of some hundred terms.
constexpr double kTolerance64 = 1e-11;
// bfloat16 rounds at 2^-9, and a gradient adds some numbers that were rounded.
constexpr double kToleranceBf16 = 0x1p-7;

struct Pass {
  double loss;
  std::map<std::string, std::vector<double>> gradients;
};

template <class T>
Pass run_pass(const Backend& backend, const Settings& settings, const Task& task, const Batch& batch) {
  nn::Model model(backend, dtype_of<T>(), settings, task.vocab(), task.length());
  model.allocate();
  model.initialise(3);
  model.parameters().zero_grad();
  Tape tape(backend);
  Tape::Options options;
  options.training = false;  // the masks of dropout do not depend on the type, but their scale rounds
  tape.begin(options);
  const nn::HeadOutput out = model.forward(tape, model_input(tape, batch));
  const Tensor loss = ops::mean(tape, nn::training_loss(tape, out));
  tape.backward(loss);
  Pass pass{static_cast<double>(to_host<T>(backend, loss)[0]), {}};
  for (const auto& entry : model.parameters().entries()) {
    std::vector<T> host(static_cast<size_t>(entry.shape.size()));
    backend.copy_out(host.data(), entry.tensor.template grad<T>(), sizeof(T) * host.size());
    pass.gradients[entry.name].assign(host.begin(), host.end());
  }
  return pass;
}

}  // namespace

BackendCheck check_backend(const Backend& backend, const Settings& settings) {
  const auto task = find_task(settings.text("task.name")).make(settings);
  const Batch batch = task->batch(Split::train, 6, 0, 4);
  const Pass low = run_pass<float>(backend, settings, *task, batch);
  const Pass high = run_pass<double>(cpu_backend(), settings, *task, batch);
  BackendCheck result;
  result.loss_error = std::abs(low.loss - high.loss) / std::max(kSmallest, std::abs(high.loss));
  const auto largest_of = [](const std::vector<double>& values) {
    double largest = 0;
    for (double v : values) largest = std::max(largest, std::abs(v));
    return largest;
  };
  double overall = 0;
  for (const auto& [name, exact] : high.gradients) overall = std::max(overall, largest_of(exact));
  for (const auto& [name, exact] : high.gradients) {
    const std::vector<double>& rounded = low.gradients.at(name);
    // Where large terms cancel (equal keys at all positions) rounding is that of the terms.
    const double largest = std::max({largest_of(exact), 1e-2 * overall, kSmallest});
    for (size_t i = 0; i < exact.size(); ++i) {
      const double error = std::abs(rounded[i] - exact[i]) / largest;
      if (error <= result.gradient_error || std::isnan(result.gradient_error)) continue;  // NaN stays
      result.gradient_error = error;
      result.parameter = name;
    }
  }
  return result;
}

std::map<std::string, KernelCheck> check_kernels(const Backend& backend, const std::string& only, bool bf16) {
  std::map<std::string, KernelCheck> checks;
  for (const OpCase& c : op_cases()) {
    if (!only.empty() && c.entry != only) continue;
    KernelCheck& check = checks[c.entry];
    check.tolerance = bf16 ? kToleranceBf16 : kTolerance;
    const Arrays exact = c.run<double>(cpu_backend(), bf16);
    const OpError error = op_error(c.run<float>(backend, bf16), exact);
    ++check.cases;
    if (error.error > check.error || check.variant.empty()) {
      check.error = error.error;
      check.variant = error.error > 0 ? c.variant + ": " + error.array : c.variant;
    }
    check.reference = std::max(check.reference, op_error(c.run<float>(cpu_backend(), bf16), exact).error);
    if (!bf16) check.error64 = std::max(check.error64, op_error(c.run<double>(backend), exact).error);
  }
  return checks;
}

bool KernelCheck::is_rounding() const {
  return error <= tolerance && error64 <= kTolerance64;
}

TrainingCheck check_training(const Backend& backend, const Settings& settings) {
  const auto train = [&](const char* graph) {
    Settings changed = settings;
    changed.set("train.cuda_graph", std::string(graph));
    return training_hash(backend, changed, 5);
  };
  const uint64_t direct = train("off").hash;
  const TrainingHash graph = train("on");
  return {train("off").hash == direct, graph.hash == direct, graph.graph};
}

int check_backends(std::ostream& out) {
  std::vector<const Backend*> backends = {&cpu_backend()};
  const char* why = "";
  if (const Backend* cuda = cuda_backend(&why)) backends.push_back(cuda);
  int bugs = 0;
  out << fmt::format("{:9} {:22} {:>5} {:>9} {:>9} {:>9}  {:44} {}\n", "backend", "kernel", "cases",
                     "float32", "cpu's", "float64", "where", "verdict");
  const auto kernels = [&](const Backend& backend, const std::string& name, bool bf16) {
    for (const auto& [kernel, check] : check_kernels(backend, "", bf16)) {
      bugs += !check.is_rounding();
      out << fmt::format("{:9} {:22} {:5} {:9.1e} {:9.1e} {:9.1e}  {:44} {}\n", name, kernel, check.cases,
                         check.error, check.reference, check.error64, check.variant,
                         check.is_rounding() ? "rounding" : "BUG");
    }
  };
  for (const Backend* backend : backends) {
    kernels(*backend, backend->name, false);
    if (backend == &cpu_backend()) continue;
    set_gpu_precision("bf16");
    kernels(*backend, fmt::format("{} bf16", backend->name), true);
    set_gpu_precision("f32");
  }
  out << fmt::format("\n{:8} {:52} {:>9} {:>9}  {:24} {}\n", "backend", "variant", "loss", "gradient",
                     "where", "verdict");
  for (const Backend* backend : backends) {
    for (const std::vector<std::string>& variant : head_variants()) {
      const BackendCheck check = check_backend(*backend, check_settings(variant));
      const bool ok = check.loss_error <= kTolerance && check.gradient_error <= kTolerance;
      bugs += !ok;
      out << fmt::format("{:8} {:52} {:9.1e} {:9.1e}  {:24} {}\n", backend->name,
                         fmt::format("{}", fmt::join(variant, " ")), check.loss_error, check.gradient_error,
                         check.parameter, ok ? "rounding" : "BUG");
    }
  }
  out << fmt::format("\n{:8} {:52} {:>6} {:>9} {:>9} {:>9}  {}\n", "backend", "training", "again", "as graph",
                     "repeated", "updated", "verdict");
  for (const Backend* backend : backends) {
    if (!backend->step_graph) continue;
    std::vector<std::vector<std::string>> variants = {stream_changes()};
    for (const nn::HeadEntry& head : nn::head_registry())
      variants.push_back({std::string("head.kind=") + head.name});
    for (const std::vector<std::string>& variant : variants) {
      const TrainingCheck check = check_training(*backend, check_settings(variant));
      bugs += !check.is_right();
      const auto bits = [](bool same) { return same ? "equal" : "DIFFER"; };
      out << fmt::format("{:8} {:52} {:>6} {:>9} {:9} {:9}  {}\n", backend->name,
                         fmt::format("{}", fmt::join(variant, " ")), bits(check.again), bits(check.graph),
                         check.counts.repeated, check.counts.updated, check.is_right() ? "right" : "BUG");
    }
  }
  if (backends.size() == 1) out << "cuda: " << why << '\n';
  return bugs == 0 ? 0 : 3;
}

}  // namespace copylab
