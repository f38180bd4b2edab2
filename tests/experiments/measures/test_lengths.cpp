// lengths: cells against evaluations of the same task, whole answers, and what is refused.
#include <cmath>

#include "core/error.h"
#include "experiments/check/check_settings.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/measures/answers.h"
#include "experiments/measures/lengths.h"
#include "experiments/measures/statistics.h"
#include "experiments/train/trainer.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using copylab::testing::message_of;

namespace {

struct Trained {
  Settings settings;
  std::unique_ptr<Task> task;
  std::unique_ptr<nn::Model> model;

  explicit Trained(std::vector<std::string> changes, int updates) {
    changes.insert(changes.end(),
                   {"run.measures=lengths", "measure.lengths.sequences=40", "model.dropout=0"});
    settings = check_settings(changes);
    task = find_task(settings.text("task.name")).make(settings);
    model = make_model(settings, *task, cpu_backend());
    model->initialise(3);
    Trainer trainer(*task, *model, train_plan(settings, *task), 3);
    for (int i = 0; i < updates; ++i) trainer.update();
  }
  MeasureOutput measure() {
    MeasureOutput out;
    lengths_measure.run({*model, nullptr, *task, settings, cpu_backend(), 1}, out);
    return out;
  }
};

}  // namespace

TEST_CASE("whole answers need every label", "[measures]") {
  Trained run({"task.name=bracket_copy", "task.vocab=49", "task.words=3", "task.span=2", "task.length=12",
               "train.lr=1e-2"},
              60);
  const Answers a = answers_of(*run.model, *run.task, 1, 40, 7);
  CHECK(a.labels == 80);
  REQUIRE(a.right.size() == 40);
  const Evaluation e = evaluate(*run.model, *run.task, Split::test, 1, 40, 16);
  CHECK(a.right_labels == e.all.natural.correct);
  CHECK(a.nll / 80 == Approx(e.loss()).epsilon(1e-6));
  CHECK(a.token_accuracy() == Approx(e.accuracy()));
  // By hand: a sequence is right where both of its labels are.
  int64_t right = 0;
  for (int64_t n = 0; n < 40; ++n) {
    Tape tape(cpu_backend());
    tape.begin({.record = false, .training = false});
    const Batch one = run.task->batch(Split::test, 1, n, 1);
    nn::ModelInput in = model_input(tape, one);
    in.want_argmax = true;
    const auto best = to_host<int32_t>(cpu_backend(), run.model->forward(tape, in).argmax);
    const bool both = best[0] == one.targets[10] && best[1] == one.targets[11];
    CHECK(a.right[n] == both);
    right += both;
  }
  CHECK(a.right_sequences() == right);
  CHECK((right > 0 && right < a.right_labels));
}

TEST_CASE("lengths: a cell is an evaluation of the task at its length and place", "[measures]") {
  Trained run({"task.name=parity", "task.vocab=60", "task.bits=2", "task.length=12", "train.lr=3e-3",
               "measure.lengths.lengths=[12,48]", "measure.lengths.pauses=right,none"},
              20);
  const MeasureOutput out = run.measure();
  const auto& accuracy = out.arrays.at("token_accuracy");
  CHECK(accuracy.shape == std::vector<int64_t>{1, 2, 2});
  CHECK(accuracy.dims == std::vector<std::string>{"level", "pause", "length"});
  CHECK(out.labels.at("pause") == std::vector<std::string>{"right", "none"});
  CHECK(out.labels.at("level") == std::vector<std::string>{"easy"});
  CHECK(out.coordinates.at("length") == std::vector<double>{12, 48});
  for (size_t pause = 0; pause < 2; ++pause)
    for (size_t length = 0; length < 2; ++length) {
      Settings there = run.settings;
      there.set("task.length", int64_t{length == 0 ? 12 : 48});
      there.set("task.pause", std::string(pause == 0 ? "right" : "none"));
      const auto task = find_task("parity").make(there);
      const Evaluation e = evaluate(*run.model, *task, Split::test, 1, 40, 8);
      const size_t cell = 2 * pause + length;
      const std::string name = std::string(pause == 0 ? "right" : "none") + (length == 0 ? "_12" : "_48");
      CHECK(out.arrays.at("accuracy_" + name).values[0] == Approx(e.accuracy()));
      CHECK(accuracy.values[cell] == Approx(e.accuracy()));
      CHECK(out.arrays.at("answer_accuracy").values[cell] == Approx(e.accuracy()));  // one label each
      CHECK(out.arrays.at("loss").values[cell] == Approx(e.loss()).epsilon(1e-6));
      CHECK(out.arrays.at("labels").values[cell] == 40);
      const auto interval = wilson_interval(e.all.natural.correct, 40);
      CHECK(out.arrays.at("answer_low").values[cell] == interval.first);
      CHECK(out.arrays.at("answer_high").values[cell] == interval.second);
    }
}

TEST_CASE("modes are compared with the first one, sequence by sequence", "[measures]") {
  Answers full, other, none;
  full.right = {true, true, true, true, true, true, true, false, false, false};
  other.right = {true, false, false, false, false, false, false, true, false, false};
  full.labels = other.labels = 20;
  full.right_labels = 15;
  other.right_labels = 5;
  MeasureOutput out;
  report_modes({"full", "other"}, {"near", "far"}, {full, none, other, none}, {2}, {"length"}, out);
  const auto& answer = out.arrays.at("answer_accuracy");
  CHECK(answer.shape == std::vector<int64_t>{2, 2});
  CHECK(answer.dims == std::vector<std::string>{"mode", "length"});
  CHECK(answer.values[0] == 0.7);
  CHECK(answer.values[2] == 0.2);
  CHECK(std::isnan(answer.values[1]));
  CHECK(out.arrays.at("token_accuracy").values[2] == 0.25);
  CHECK(out.arrays.at("gained").values == std::vector<double>{0, 0, 1, 0});
  CHECK(out.arrays.at("lost").values == std::vector<double>{0, 0, 6, 0});
  CHECK(out.arrays.at("p").values[2] == Approx(2 * 8 / 128.0));  // 1 of 7 or fewer, both ways
  CHECK(out.arrays.at("p").values[0] == 1.0);
  CHECK(out.arrays.at("gain_other_near").values[0] == Approx(-0.5));
  CHECK(out.arrays.at("accuracy_full_near").values[0] == 0.7);
  CHECK(out.arrays.at("sequences").values[0] == 10);
  MeasureOutput one;
  report_modes({"full", "other"}, {"run"}, {full, other}, {}, {}, one);
  CHECK(one.arrays.at("gain_other").values[0] == Approx(-0.5));
  CHECK(one.arrays.at("p").shape == std::vector<int64_t>{2});
}

TEST_CASE("lengths: by default up to four times the run's; levels that do not fit have no number",
          "[measures]") {
  Trained run(
      {"task.name=bracket_copy", "task.vocab=60", "task.length=16", "measure.lengths.levels=easy,hard"}, 1);
  const MeasureOutput out = run.measure();
  CHECK(out.coordinates.at("length") == std::vector<double>{16, 32, 48, 64});
  const auto& labels = out.arrays.at("labels").values;
  CHECK(labels ==
        std::vector<double>{160, 160, 160, 160, 0, 0, 640, 640});  // hard: 2 · 16 + 5 positions at least
  CHECK(std::isnan(out.arrays.at("token_accuracy").values[4]));
  CHECK(std::isnan(out.arrays.at("answer_low").values[5]));
  CHECK(std::isfinite(out.arrays.at("loss").values[6]));
  CHECK(out.arrays.at("accuracy_hard_48").values[0] == out.arrays.at("answer_accuracy").values[6]);
}

TEST_CASE("lengths: settings that are no cell are refused", "[measures]") {
  Trained spam({"task.name=spamlang", "task.length=8", "measure.lengths.pauses=right"}, 1);
  CHECK(message_of([&] { spam.measure(); }) ==
        "[lengths] a task with task.pause expected: got task.name=spamlang");
  Trained wrong({"task.name=parity", "task.vocab=60", "measure.lengths.pauses=right,left"}, 1);
  CHECK(message_of([&] { wrong.measure(); }) ==
        "[lengths] task.pause: one of right, wrong, none expected: got left");
  Trained text({"task.name=text", "task.corpus=tinyshakespeare", "task.level=byte", "task.vocab=0"}, 1);
  const MeasureOutput out = text.measure();
  CHECK(out.labels.at("level") == std::vector<std::string>{"byte"});
  CHECK(out.labels.at("pause") == std::vector<std::string>{""});
  text.settings.set("measure.lengths.levels", std::string("word"));
  CHECK(
      message_of([&] { text.measure(); }).starts_with("[lengths] a task of the same 256 ids expected: got "));
  CHECK(out.arrays.at("loss").shape == std::vector<int64_t>{1, 1, 4});
}
