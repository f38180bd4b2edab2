// Streams through training and evaluation: every target once, states carried on, resumed, and what is
// refused.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/io/hdf5.h"
#include "experiments/check/check_settings.h"
#include "experiments/evaluate/eval_tokens.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/export_batches.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/measures/neural_cache.h"
#include "experiments/measures/pointer_trace.h"
#include "experiments/store/checkpoint.h"
#include "experiments/train/memory.h"
#include "experiments/train/trainer.h"
#include "tests/catch.h"
#include "tests/experiments/worker_process.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::message_of;

namespace {

Settings stream_settings(const std::vector<std::string>& more = {}) {
  std::vector<std::string> changes = stream_changes();
  changes.insert(changes.end(), more.begin(), more.end());
  return check_settings(changes);
}

struct Setup {
  Settings settings;
  std::unique_ptr<Task> task;
  std::unique_ptr<nn::Model> model;
  std::unique_ptr<Trainer> trainer;

  explicit Setup(const std::vector<std::string>& more = {}) : settings(stream_settings(more)) {
    task = find_task("text").make(settings);
    model = make_model(settings, *task, cpu_backend());
    model->initialise(1);
    trainer = std::make_unique<Trainer>(*task, *model, train_plan(settings, *task), 1);
  }
  MeasureInput measured() const { return {*model, nullptr, *task, settings, cpu_backend(), 1}; }
};

// The validation split's targets, counted batch by batch.
int64_t count_valid(const Setup& s) {
  int64_t targets = 0;
  for (int64_t i = 0;; ++i) {
    const Batch b = s.task->batch(Split::valid, 1, i, 4);
    const int64_t labels =
        std::count_if(b.targets.begin(), b.targets.end(), [](int32_t t) { return t >= 0; });
    if (labels == 0) return targets;
    targets += labels;
  }
}

}  // namespace

TEST_CASE("Streams: rows are lanes, and an update is one batch", "[train][stream]") {
  const auto plan = [](const std::vector<std::string>& changes) {
    return message_of([&] { Setup setup(changes); });
  };
  CHECK(plan({}) == "no error");
  CHECK(plan({"train.batch=5"}) ==
        "[train] train.batch must be task.lanes = 4, a row for each stream: got 5");
  CHECK(plan({"train.accumulate=2"}) ==
        "[train] train.accumulate must be 1 with task.lanes = 4, since batches follow each other: got 2");
}

TEST_CASE("Streams: the trainer carries states on, and forgets them where the streams start anew",
          "[train][stream]") {
  Setup a, forgetful;
  CHECK(a.trainer->carry().empty());
  const double first = a.trainer->update().loss;
  CHECK(forgetful.trainer->update().loss == first);
  CHECK(a.trainer->carry().rows == 4);
  CHECK(a.trainer->carry().memory == 19);
  forgetful.trainer->carry().clear();
  CHECK(a.trainer->update().loss != forgetful.trainer->update().loss);

  // At the next epoch's first batch what was carried makes no difference.
  const int64_t epoch = [&] {
    for (int64_t i = 1;; ++i)
      if (a.task->batch(Split::train, 1, i, 4).fresh) return i;
  }();
  Setup b, c;
  for (Setup* s : {&b, &c}) s->trainer->resume_at(epoch);
  c.trainer->update();
  const nn::Carry junk = c.trainer->carry();
  Setup d;
  d.trainer->resume_at(epoch);
  d.trainer->carry() = junk;
  CHECK(d.trainer->update().loss == b.trainer->update().loss);
}

TEST_CASE("Streams: training learns, with and without overlap", "[train][stream]") {
  for (const char* advance : {"task.advance=0", "task.advance=5", "task.advance=1"}) {
    Setup s({advance, "model.dropout=0", "train.lr=1e-2"});
    double first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
      const double loss = s.trainer->update().loss;
      if (i < 10) first += loss / 10;
      if (i >= 50) last += loss / 10;
    }
    CAPTURE(advance);
    CHECK(last < first - 0.5);
  }
}

TEST_CASE("Streams: NaN leaves weights and carry as they were", "[train][stream]") {
  Setup s;
  s.trainer->update();
  const nn::Carry before = s.trainer->carry();
  s.model->parameters().find("lstm.1.w_hh").tensor.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_AS(s.trainer->update(), NonFiniteError);
  CHECK(s.trainer->carry() == before);
}

TEST_CASE("Streams: evaluation counts every target once, with equal losses however long stretches are",
          "[evaluate][stream]") {
  const Setup plain;
  const auto whole = [&](const std::vector<std::string>& more) {
    const Setup other(more);  // the same weights under another way to read
    return evaluate(*plain.model, *other.task, Split::valid, 1, int64_t{1} << 40, 3);
  };
  const Evaluation once = whole({"task.lanes=50", "train.batch=50"});
  const Evaluation overlapping = whole({"task.lanes=50", "train.batch=50", "task.advance=11"});
  CHECK(once.all.labels == overlapping.all.labels);  // training alone overlaps
  CHECK(once.loss() == overlapping.loss());
  const int64_t targets = count_valid(plain);
  CHECK(once.all.labels == targets);
  CHECK(once.bytes == targets);
  // Longer stretches say the same: states are carried on between them. The window is shorter than the
  // shortest.
  const Evaluation longer = whole({"task.lanes=50", "train.batch=50", "task.length=100"});
  CHECK(longer.all.labels == once.all.labels);
  CHECK(longer.loss() == Approx(once.loss()).epsilon(1e-6));
  // Sequences are stretches, rounded up to all lanes.
  CHECK(evaluate(*plain.model, *plain.task, Split::valid, 1, 9, 3).all.labels == 12 * 16);
}

TEST_CASE("Streams: a split that is scored holds each lane as one sequence", "[measures][stream]") {
  Setup s({"eval.sequences=24", "eval.test_sequences=24"});
  const auto kept = score_split(s.measured(), Split::test);
  const ScoredSplit& split = *kept;
  const Evaluation e = evaluate(*s.model, *s.task, Split::test, 1, 24, 8);
  CHECK(split.sequences == 4);
  CHECK(split.length == 6 * 16);
  double sum = 0;
  int64_t labels = 0;
  for (size_t i = 0; i < split.nll.size(); ++i) {
    labels += split.labelled(int64_t(i));
    sum += split.nll[i];
    if (int64_t(i) % split.length + 1 < split.length) CHECK(split.targets[i] == split.tokens[i + 1]);
  }
  CHECK(labels == e.all.labels);
  CHECK(sum / double(labels) == Approx(e.loss()).epsilon(1e-6));
  for (const Field& field : neural_cache_measure.fields()) s.settings.set(field.path, field.fallback);
  MeasureOutput out;
  CHECK(message_of([&] { neural_cache_measure.run(s.measured(), out); }) ==
        "measure.neural_cache.windows: 0 is all of the past, which has no end in a stream: numbers expected");
  s.settings.set("measure.neural_cache.windows", std::vector<int64_t>{10, 30});
  neural_cache_measure.run(s.measured(), out);
  CHECK(out.arrays.at("base_loss").values[0] == Approx(e.loss()).epsilon(1e-6));
}

TEST_CASE("Streams: traces begin with the pointer's memory", "[measures][stream]") {
  const Setup s;
  const int64_t memory = 19, all = memory + 16;
  CHECK(trace_length(s.measured(), *s.model) == all);
  std::vector<PointerTrace> traces;
  for_each_trace(s.measured(), *s.model, 14, [&](const PointerTrace& t) { traces.push_back(t); });
  REQUIRE(traces.size() == 14);
  const PointerReach reach = pointer_reach(s.settings);
  for (size_t n = 0; n < traces.size(); ++n) {
    const PointerTrace& t = traces[n];
    REQUIRE(t.length() == all);
    REQUIRE(t.weights.rows() == all);
    for (int64_t i = 0; i < all; ++i) {
      if (t.targets[i] < 0) continue;
      const std::vector<int64_t> keys = reach.keys(t, i);
      double sum = 0, right = 0;
      for (const int64_t key : keys) {
        CHECK(t.tokens[key] >= 0);
        sum += t.weights(i, key);
        if (t.tokens[key] == t.targets[i]) right += t.weights(i, key);
      }
      CHECK(sum + t.sink[i] == Approx(1).epsilon(1e-5));
      CHECK(right == Approx(std::exp(t.log_copy[i])).margin(1e-6));
    }
    // What lane n % 4 read in its last stretch has become memory.
    if (n < 4) {
      CHECK(t.tokens[memory - 1] == -1);
      continue;
    }
    const PointerTrace& before = traces[n - 4];
    for (int64_t i = 0; i < memory; ++i) CHECK(t.tokens[i] == before.tokens[i + 16]);
    CHECK((t.h.topRows(memory) - before.h.middleRows(16, memory)).cwiseAbs().maxCoeff() < 1e-6);
  }
}

TEST_CASE("Streams: a checkpoint holds what is carried", "[store][stream]") {
  testing::TemporaryFolder folder;
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"head.window=0"}}) {
    Setup s(more);
    s.trainer->update();
    CheckpointState state;
    state.run_id = "x";
    state.step = 1;
    state.carry = s.trainer->carry();
    save_checkpoint(folder / "c.h5", state, s.model->parameters(), nullptr);
    const nn::Carry carry = read_checkpoint_state(folder / "c.h5").carry;
    CHECK(carry == s.trainer->carry());
    CHECK(carry.memory == (more.empty() ? 19 : 0));
  }
}

TEST_CASE("Streams: a run is exported and evaluated position by position, states carried on",
          "[worker][stream]") {
  testing::TemporaryFolder folder;
  std::vector<std::string> changes = stream_changes();
  for (const char* more : {"train.steps=30", "task.advance=6", "eval.test_sequences=20"})
    changes.push_back(more);
  const std::filesystem::path run = testing::new_run(folder, "run", changes);
  const testing::Ended ended = testing::work(run);
  CAPTURE(ended.error);
  REQUIRE(ended.exit_code == 0);
  export_batches(check_settings(changes), Split::test, 0, 5, folder / "data.h5");
  eval_tokens(run, folder / "data.h5", folder / "out.h5");
  const h5::File data = h5::File::open(folder / "data.h5"), out = h5::File::open(folder / "out.h5");
  CHECK(data.read<int32_t>("fresh").values == std::vector<int32_t>{1, 0, 0, 0, 0});
  const std::vector<double> nll = out.read<double>("nll").values;
  double sum = 0;
  int64_t labels = 0;
  for (const double x : nll)
    if (!std::isnan(x)) sum += x, ++labels;
  CHECK(labels == 4 * 5 * 16);
  // Of training, where stretches overlap.
  export_batches(check_settings(changes), Split::train, 0, 3, folder / "train.h5");
  eval_tokens(run, folder / "train.h5", folder / "train-out.h5");
  const h5::File overlapping = h5::File::open(folder / "train.h5");
  CHECK(overlapping.read<int32_t>("advance").values == std::vector<int32_t>{6, 6, 6});
  const std::vector<double> again = h5::File::open(folder / "train-out.h5").read<double>("nll").values;
  CHECK(std::isnan(again[4 * 16]));  // step 1 is asked for its last 6 positions
  CHECK_FALSE(std::isnan(again[5 * 16 - 1]));
  const LoadedRun loaded = load_run(run);
  const Evaluation e = evaluate(*loaded.model, *loaded.task, Split::test, 1, 20, 8);
  CHECK(e.all.labels == labels);
  CHECK(sum / double(labels) == Approx(e.loss()).epsilon(1e-6));
}

TEST_CASE("Streams: the memory estimate is close to what the step arena takes", "[train][stream]") {
  for (const char* window : {"head.window=0", "head.window=100"})
    for (const char* dropout : {"model.dropout=0", "model.dropout=0.3"}) {
      Setup s({"model.dim=64", "task.length=64", "task.lanes=16", "train.batch=16", window, dropout});
      for (int i = 0; i < 3; ++i) s.trainer->update();
      const MemoryEstimate m = estimate_memory(s.settings, s.trainer->plan(), *s.model);
      const double measured = static_cast<double>(s.trainer->peak_activations());
      CAPTURE(window, dropout, m.activations, measured);
      CHECK(static_cast<double>(m.activations) == Approx(measured).epsilon(0.25));
    }
}
