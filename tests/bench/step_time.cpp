// Training-step timer for compare_torch.py: builds one model, then answers each line "steps N" on standard
// input with the wall and CPU milliseconds of N training steps, as one line of JSON.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>

#include "core/cuda/gpu.h"
#include "core/nn/model.h"
#include "core/ops/reduce.h"
#include "core/optim/optimizer.h"

using namespace copylab;

namespace {

// Most memory this process has held since it started; getrusage would count what its parent held, too.
long peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  throw Error("[step_time] /proc/self/status has no VmHWM");
}

struct Options {
  int64_t vocab = 16384, batch = 8, length = 64, dim = 64, layers = 4, heads = 4, ffn = 192;
  bool tied = true;
  std::string head = "vanilla", kind = "transformer";  // an lstm carries its states from step to step
  std::string device = "cpu", precision = "f32";
  bool cuda_graph = true;  // forward and backward pass as one graph on a GPU
  int threads = 2;
};

Settings settings_of(const Options& o) {
  Settings s;
  for (const Field& field : nn::model_fields()) s.set(field.path, field.fallback);
  for (const Field& field : nn::find_head(o.head).fields()) s.set(field.path, field.fallback);
  s.set("head.kind", o.head);
  s.set("model.kind", o.kind);
  s.set("model.dim", o.dim);
  s.set("model.layers", o.layers);
  s.set("model.heads", o.heads);
  s.set("model.kv_heads", o.heads);
  if (o.kind == "transformer") s.set("model.ffn", o.ffn);
  s.set("model.tied", o.tied);
  return s;
}

const Backend& backend_of(const Options& o) {
  if (o.device == "cpu") return cpu_backend();
  const char* why = "";
  const Backend* cuda = cuda_backend(&why);
  expect(cuda != nullptr, "step_time", "--device cuda: {}", why);
  set_gpu_precision(o.precision);
  return *cuda;
}

class Training {
 public:
  explicit Training(const Options& o)
      : shape_{o.batch, o.length},
        recurrent_(o.kind == "lstm"),
        model_(backend_of(o), DType::f32, settings_of(o), o.vocab, o.length),
        tape_(model_.parameters().backend()) {
    model_.initialise(0);
    const auto step_graph = model_.parameters().backend().step_graph;
    if (step_graph && o.cuda_graph) graph_ = step_graph(true);
    optimizer_ = std::make_unique<optim::Optimizer>(model_.parameters(), optim::OptimizerOptions{});
    // Eight batches of sequences that repeat one symbol, as in SpamLang.
    const Random random(0, "step_time");
    for (int64_t i = 0; i < 8; ++i) {
      batches_.emplace_back();
      for (int64_t b = 0; b < o.batch; ++b)
        batches_.back().insert(batches_.back().end(), o.length,
                               static_cast<int32_t>(random.below(i * o.batch + b, o.vocab)));
    }
  }

  // One update; returns the loss.
  double step() {
    const std::vector<int32_t>& symbols = batches_[steps_++ % batches_.size()];
    Tensor loss;
    const auto work = [&] {
      tape_.begin({.read_later = true});
      nn::ModelInput in;
      in.tokens = tape_.constant(symbols, shape_);
      in.targets = tape_.constant(symbols, shape_);
      if (recurrent_) in.carry = &carry_;
      loss = ops::mean(tape_, nn::training_loss(tape_, model_.forward(tape_, in)));
      tape_.backward(loss);
    };
    if (graph_)
      graph_->run(work);
    else
      work();
    tape_.finish_reads();
    optimizer_->step(1e-3, optim::clip_scale(optim::gradient_norm(model_.parameters()), 1.0));
    return to_host<float>(tape_.backend(), loss)[0];
  }
  int64_t parameters() const { return model_.parameters().count(); }

 private:
  Shape shape_;
  bool recurrent_;
  nn::Carry carry_;
  nn::Model model_;
  Tape tape_;
  std::unique_ptr<StepGraph> graph_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<std::vector<int32_t>> batches_;
  size_t steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Training-step timer; see compare_torch.py");
  app.add_option("--vocab", o.vocab);
  app.add_option("--batch", o.batch);
  app.add_option("--length", o.length);
  app.add_option("--dim", o.dim);
  app.add_option("--layers", o.layers);
  app.add_option("--heads", o.heads);
  app.add_option("--ffn", o.ffn);
  app.add_option("--tied", o.tied);
  app.add_option("--head", o.head);
  app.add_option("--kind", o.kind);
  app.add_option("--cuda-graph", o.cuda_graph);
  app.add_option("--device", o.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--precision", o.precision)->check(CLI::IsMember({"f32", "tf32", "bf16"}));
  app.add_option("--threads", o.threads);
  CLI11_PARSE(app, argc, argv);
  try {
    omp_set_num_threads(o.threads);
    const long baseline = peak_kib();
    Training training(o);
    std::string word;
    int count = 0;
    while (std::cin >> word >> count) {
      std::string wall, cpu;
      double loss = 0;
      for (int i = 0; i < count; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const std::clock_t cpu_start = std::clock();
        loss = training.step();
        const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
        const double cpu_elapsed = 1e3 * static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
        wall += fmt::format("{}{:.4f}", i ? ", " : "", elapsed.count());
        cpu += fmt::format("{}{:.4f}", i ? ", " : "", cpu_elapsed);
      }
      fmt::print(
          "{{\"wall_ms\": [{}], \"cpu_ms\": [{}], \"loss\": {}, \"baseline_kib\": {}, \"peak_kib\": {}, "
          "\"parameters\": {}}}\n",
          wall, cpu, loss, baseline, peak_kib(), training.parameters());
      std::fflush(stdout);
    }
  } catch (const Error& e) {
    fmt::print(stderr, "step_time: {}\n", e.what());
    return 1;
  }
  return 0;
}
