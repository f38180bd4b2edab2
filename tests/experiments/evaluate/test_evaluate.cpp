// Evaluation: independent of batching, right against sums by hand, arrays per position, exact batches.
#include "experiments/evaluate/evaluate.h"

#include <cmath>

#include "core/io/hdf5.h"
#include "experiments/check/check_settings.h"
#include "experiments/evaluate/eval_tokens.h"
#include "experiments/evaluate/export_batches.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/train/trainer.h"
#include "tests/catch.h"
#include "tests/experiments/small_model.h"
#include "tests/temporary_folder.h"

using namespace copylab;

namespace {

struct Trained : testing::SmallModel {
  explicit Trained(const std::vector<std::string>& changes) : SmallModel(changes) {
    const auto trainer = make_trainer();
    for (int i = 0; i < 30; ++i) trainer->update();
  }
  Evaluation at_batch(int64_t batch) const { return evaluate(*model, *task, Split::test, 9, 100, batch); }
};

void require_same(const LabelSums& a, const LabelSums& b) {
  REQUIRE(a.labels == b.labels);
  REQUIRE(a.natural.correct == b.natural.correct);
  REQUIRE(a.no_copy.correct == b.no_copy.correct);
  REQUIRE(a.force_copy.correct == b.force_copy.correct);
  REQUIRE(a.reachable == b.reachable);
  REQUIRE(a.natural.nll == Approx(b.natural.nll).epsilon(1e-6));
  REQUIRE(a.gate == Approx(b.gate).epsilon(1e-6));
  REQUIRE(a.sink == Approx(b.sink).epsilon(1e-6));
}

}  // namespace

TEST_CASE("Evaluation does not depend on its batch size", "[evaluate]") {
  for (const char* head : {"head.kind=vanilla", "head.kind=copy_paste"}) {
    const Trained run({head, "task.period=3"});
    const Evaluation one = run.at_batch(1), seven = run.at_batch(7), many = run.at_batch(64);
    for (const Evaluation* e : {&seven, &many}) {
      CAPTURE(head);
      REQUIRE(e->all.labels == 1600);
      REQUIRE(e->loss() == Approx(one.loss()).epsilon(1e-6));
      REQUIRE(e->slices.size() == one.slices.size());
      require_same(e->all, one.all);
      for (size_t s = 0; s < one.slices.size(); ++s) require_same(e->slices[s], one.slices[s]);
    }
  }
}

TEST_CASE("Evaluation: sums are those of the head's outputs", "[evaluate]") {
  const Trained run({"task.period=3", "eval.batch=5"});
  const Evaluation e = evaluate(*run.model, *run.task, Split::valid, 4, 5, 5);
  const Batch batch = run.task->batch(Split::valid, 4, 0, 5);
  Tape tape(cpu_backend());
  Tape::Options options;
  options.record = false;
  options.training = false;
  tape.begin(options);
  nn::ModelInput in = model_input(tape, batch);
  in.want_argmax = true;
  const nn::HeadOutput out = run.model->forward(tape, in);
  double nll = 0;
  for (float x : to_host<float>(cpu_backend(), out.nll)) nll += static_cast<double>(x);
  REQUIRE(e.all.labels == 80);
  REQUIRE(e.loss() == Approx(nll / 80));
  // A target is out of reach of the pointer exactly when it has not been shown: the first two of each block.
  REQUIRE(e.all.reachable >= 5 * 14);
  REQUIRE(e.pointer);
  const MeasureOutput described = describe(e, *run.task, 640);
  REQUIRE(described.arrays.at("accuracy").values[0] == e.accuracy());
  REQUIRE(described.arrays.at("budget_sequences_per_symbol").values[0] == 640.0 * 3 / 64);
  // Each statistic of the whole is the mean of those of the slices.
  for (const char* name : {"accuracy", "loss", "no_copy_loss", "force_copy_accuracy", "gate", "sink"}) {
    double sum = 0;
    for (size_t s = 0; s < e.slices.size(); ++s)
      if (e.slices[s].labels)
        sum += described.arrays.at(name + std::string("_by_slice")).values[s] *
               static_cast<double>(e.slices[s].labels);
    CAPTURE(name);
    REQUIRE(sum == Approx(80 * described.arrays.at(name).values[0]));
  }
  REQUIRE_FALSE(described.arrays.count("bits_per_byte"));
  REQUIRE(described.labels.at("slice") == run.task->slices());
}

TEST_CASE("Exported batches are the ones that are trained on", "[evaluate]") {
  testing::TemporaryFolder folder;
  const Settings settings = check_settings();
  export_batches(settings, Split::train, 3, 5, folder / "data.h5");
  const h5::File file = h5::File::open(folder / "data.h5");
  const auto tokens = file.read<int32_t>("tokens");
  REQUIRE(tokens.shape == h5::Extent{2, 8, 16});
  const auto task = find_task("spamlang").make(settings);
  const Batch batch = task->batch(Split::train, 1, 2 * 4 + 1, 4);  // second half of update 4
  REQUIRE(std::equal(batch.tokens.begin(), batch.tokens.end(), tokens.values.begin() + (8 + 4) * 16));
  REQUIRE(file.read<int64_t>("step").values == std::vector<int64_t>{3, 4});
  REQUIRE_THROWS_AS(export_batches(settings, Split::train, 5, 5, folder / "x.h5"), Error);
  REQUIRE_THROWS_AS(export_batches(settings, Split::train, 0, 1'000'000'000'000, folder / "x.h5"), Error);
  REQUIRE_THROWS_AS(eval_tokens(folder / "run", folder / "data.h5", folder / "data.h5"), Error);
  REQUIRE(h5::File::open(folder / "data.h5").has("tokens"));
}
