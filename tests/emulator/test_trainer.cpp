// Training on the emulated backend: some updates of models with every head, with dropout and accumulation,
// and of an LSTM on streams: near those of the CPU backend, the same bits in any order of blocks and threads,
// after a checkpoint, and from recorded steps.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "core/nn/head.h"
#include "experiments/check/check_settings.h"
#include "experiments/config/resolve.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/store/checkpoint.h"
#include "experiments/train/trainer.h"
#include "tests/catch.h"
#include "tests/emulator/emulator.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using cuda::emulator::Mode;
using testing::TemporaryFolder;

namespace {

constexpr int kUpdates = 6;

struct Training {
  Settings settings;
  std::unique_ptr<Task> task;
  std::unique_ptr<nn::Model> model;
  std::unique_ptr<Trainer> trainer;
  std::vector<double> numbers;  // loss and norm of each update

  Training(const Backend& backend, DType dtype, const std::vector<std::string>& changes)
      : settings(check_settings(changes)),
        task(find_task(settings.text("task.name")).make(settings)),
        model(std::make_unique<nn::Model>(backend, dtype, settings, task->vocab(), task->length())) {
    model->initialise(1);
    trainer = std::make_unique<Trainer>(*task, *model, train_plan(settings, *task), 1);
  }
  void train(int updates) {
    for (int i = 0; i < updates; ++i) {
      const Trainer::Update update = trainer->update();
      numbers.insert(numbers.end(), {update.loss, update.grad_norm});
    }
  }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const auto& entry : model->parameters().entries()) {
      dispatch_float(model->parameters().dtype(), "test", [&](auto tag) {
        const auto host = to_host<decltype(tag)>(model->parameters().backend(), entry.tensor);
        all.insert(all.end(), host.begin(), host.end());
      });
    }
    return all;
  }
  void save(const std::filesystem::path& file) const {
    CheckpointState state;
    state.run_id = run_id(settings);
    state.step = trainer->step();
    state.carry = trainer->carry();
    save_checkpoint(file, state, model->parameters(), &trainer->optimizer());
  }
  void load(const std::filesystem::path& file) {
    const CheckpointState state =
        load_checkpoint(file, run_id(settings), model->parameters(), &trainer->optimizer());
    trainer->resume_at(state.step);
    trainer->carry() = state.carry;
  }
};

// Every head on the transformer of check_settings (dropout 0.1, two batches an update), SGD, and an LSTM with
// dropout and zoneout on streams.
std::vector<std::vector<std::string>> trained_variants() {
  std::vector<std::vector<std::string>> variants = {stream_changes(), {"train.optimizer=sgd"}};
  for (const nn::HeadEntry& head : nn::head_registry())
    variants.push_back({std::string("head.kind=") + head.name});
  return variants;
}

}  // namespace

TEST_CASE("training on the emulated backend: near the CPU's, and the same bits in any order", "[emulator]") {
  const Backend& emulated = cuda::emulator::backend();
  for (const std::vector<std::string>& changes : trained_variants()) {
    INFO(fmt::format("{}", fmt::join(changes, " ")));
    Training exact(cpu_backend(), DType::f64, changes), same(emulated, DType::f64, changes);
    Training forward(emulated, DType::f32, changes), reversed(emulated, DType::f32, changes);
    const std::vector<double> initial = exact.weights();
    exact.train(kUpdates);
    {
      // Closed to the host where that costs least: heads have been tried so in test_models.cpp.
      std::optional<cuda::emulator::DeviceAccess> open;
      if (changes.front().starts_with("head.kind=")) open.emplace();
      for (Training* training : {&same, &forward}) training->train(kUpdates);
      cuda::emulator::set_mode(Mode::reversed);
      reversed.train(kUpdates);
      cuda::emulator::set_mode(Mode::forward);
    }
    CHECK(forward.numbers == reversed.numbers);
    CHECK(forward.weights() == reversed.weights());
    CHECK(forward.trainer->carry() == reversed.trainer->carry());
    for (size_t i = 0; i < exact.numbers.size(); ++i) {
      CHECK(same.numbers[i] == Approx(exact.numbers[i]).epsilon(1e-9));
      CHECK(forward.numbers[i] == Approx(exact.numbers[i]).epsilon(1e-3));
    }
    // In float64 alone: Adam makes as much of a gradient that is nothing but rounding as of any other.
    const std::vector<double> a = exact.weights(), b = same.weights();
    double moved = 0, apart = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      moved += std::pow(a[i] - initial[i], 2);
      apart += std::pow(a[i] - b[i], 2);
    }
    CHECK(moved > 0);
    CHECK(std::sqrt(apart) < 1e-7 * std::sqrt(moved));
  }
}

TEST_CASE("training on the emulated backend resumes to the same bits", "[emulator]") {
  const Backend& emulated = cuda::emulator::backend();
  const cuda::emulator::DeviceAccess open;
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "checkpoint.h5";
  for (const std::vector<std::string>& changes : {std::vector<std::string>{}, stream_changes()}) {
    INFO(fmt::format("{}", fmt::join(changes, " ")));
    Training whole(emulated, DType::f32, changes), first(emulated, DType::f32, changes),
        second(emulated, DType::f32, changes), forgetful(emulated, DType::f32, changes);
    whole.train(kUpdates);
    first.train(kUpdates / 2);
    first.save(file);
    second.load(file);
    second.train(kUpdates - kUpdates / 2);
    CHECK(second.weights() == whole.weights());
    CHECK(second.trainer->carry() == whole.trainer->carry());
    // Without what the file says of the optimizer and of the streams, other weights come out.
    load_checkpoint(file, run_id(forgetful.settings), forgetful.model->parameters(), nullptr);
    forgetful.trainer->resume_at(kUpdates / 2);
    forgetful.train(kUpdates - kUpdates / 2);
    CHECK(forgetful.weights() != whole.weights());
  }
}

TEST_CASE("training by recorded steps gives the same bits as command by command", "[emulator]") {
  const Backend& emulated = cuda::emulator::backend();
  std::vector<std::vector<std::string>> variants = trained_variants();
  variants.push_back({"model.dropout=0"});
  for (std::vector<std::string> changes : variants) {
    INFO(fmt::format("{}", fmt::join(changes, " ")));
    changes.push_back("train.cuda_graph=off");
    Training direct(emulated, DType::f32, changes);
    changes.back() = "train.cuda_graph=on";
    Training recorded(emulated, DType::f32, changes);
    std::optional<cuda::emulator::DeviceAccess> open;
    if (changes.front().starts_with("head.kind=")) open.emplace();
    direct.train(kUpdates);
    recorded.train(kUpdates);
    CHECK(recorded.numbers == direct.numbers);
    CHECK(recorded.weights() == direct.weights());
    CHECK(recorded.trainer->carry() == direct.trainer->carry());
    CHECK(direct.trainer->graph_counts() == nullptr);
    const StepGraph::Counts* counts = recorded.trainer->graph_counts();
    REQUIRE(counts != nullptr);
    CAPTURE(counts->direct, counts->recorded, counts->repeated, counts->updated);
    CHECK(counts->direct == 1);
    CHECK(counts->repeated > counts->recorded);
    CHECK((counts->updated == 0) == (changes.front() == "model.dropout=0"));  // its step is an argument
  }
}
