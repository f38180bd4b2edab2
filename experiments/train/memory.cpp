// Memory: a count of the numbers that one position keeps for the backward pass.
#include "experiments/train/memory.h"

#include <algorithm>
#include <fstream>

#include "core/nn/transformer.h"

namespace copylab {
namespace {

struct Counts {
  double per_position;  // numbers of activations
  bool pointer;
};

Counts count_activations(const Settings& settings) {
  const nn::TransformerShape s = nn::transformer_options(settings).shape;
  const double dim = static_cast<double>(s.dim), ffn = static_cast<double>(s.ffn);
  const double kv = dim / static_cast<double>(s.heads) * static_cast<double>(s.kv_heads);
  // A block: two norms, q before and after rotation, attention, o, down and two residual sums (9 D); k before
  // and after rotation, and v (3 KV); gate, up and their product (3 F).
  const double block = 9 * dim + 3 * kv + 3 * ffn;
  double head = 0;
  const std::string& kind = settings.text("head.kind");
  const bool pointer = kind == "copy_paste" || kind == "pointer_sentinel";
  if (kind == "mixture_of_softmaxes")  // states of all softmaxes, before and after tanh
    head = 2 * dim * static_cast<double>(settings.integer("head.components"));
  if (pointer) {  // q and k, each projected and normalised, q also scaled
    const double width = settings.has("head.dim") && settings.integer("head.dim") > 0
                             ? static_cast<double>(settings.integer("head.dim"))
                             : dim;
    head = 5 * width;
  }
  // Embedding, final norm, and the labelled rows that the head reads.
  return {static_cast<double>(s.layers) * block + 3 * dim + head, pointer};
}

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

MemoryEstimate estimate_memory(const Settings& settings, const TrainPlan& plan,
                               const nn::Parameters& parameters) {
  MemoryEstimate m;
  const int64_t scalar = static_cast<int64_t>(size_of(parameters.dtype()));
  m.parameters = m.gradients = scalar * parameters.flat_size();
  m.optimizer =
      optim::Optimizer::state_bytes(plan.optimizer.kind, parameters.flat_size(), parameters.dtype());
  const Counts counts = count_activations(settings);
  const auto bytes = [&](int64_t sequences, double per_position) {
    return static_cast<int64_t>(per_position * static_cast<double>(sequences * plan.length * scalar));
  };
  m.batch = plan.batch;
  m.activations = bytes(plan.batch, 2 * counts.per_position);
  const int64_t eval_batch = settings.integer("eval.batch");
  m.evaluation = bytes(eval_batch, counts.per_position);
  // The most probable token of a mixture is found from the weights of all positions.
  if (counts.pointer) m.evaluation += bytes(eval_batch, static_cast<double>(plan.length));
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
