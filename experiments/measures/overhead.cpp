// overhead: training steps of this run's model and of a plain one, taken in turns in one process (C7, C8).
#include "experiments/measures/overhead.h"

#include <algorithm>
#include <optional>

#include "experiments/clock.h"
#include "experiments/measures/statistics.h"
#include "experiments/train/trainer.h"

namespace copylab {
namespace {

std::vector<Field> fields() {
  return {
      {"measure.overhead.repeats", int64_t{9}, "times that each of the two is timed, in turns", 1, 10000},
      {"measure.overhead.steps", int64_t{2}, "updates that are timed at once", 1, 10000},
  };
}

// A fresh model under its trainer; the run's own weights are not touched.
struct Timed {
  Timed(const MeasureInput& in, const Settings& settings)
      : model(in.backend, DType::f32, settings, in.task.vocab(), in.task.length()) {
    model.expect_meta(meta_share(in.task));
    model.allocate();
    model.initialise(in.seed);
    // Rates do not matter here, and a run of no updates has none.
    Settings timed = settings;
    timed.set("train.budget", std::string("steps"));
    timed.set("train.steps", std::max<int64_t>(1, train_plan(settings, in.task).steps));
    trainer.emplace(in.task, model, train_plan(timed, in.task), in.seed);
  }
  double seconds_of(int64_t steps) {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < steps; ++i) trainer->update();
    return seconds_since(begin) / static_cast<double>(steps);
  }

  nn::Model model;
  std::optional<Trainer> trainer;
  std::vector<double> times;
};

void run(const MeasureInput& in, MeasureOutput& out) {
  Settings vanilla = in.settings;
  vanilla.set("head.kind", std::string("vanilla"));
  Timed plain(in, vanilla), own(in, in.settings);
  const int64_t repeats = in.settings.integer("measure.overhead.repeats");
  const int64_t steps = in.settings.integer("measure.overhead.steps");
  for (Timed* one : {&plain, &own}) one->seconds_of(1);  // memory is claimed, caches are warm
  for (int64_t i = 0; i < repeats; ++i)
    for (Timed* one : {&plain, &own}) one->times.push_back(one->seconds_of(steps));

  const auto least = [](const Timed& t) { return *std::min_element(t.times.begin(), t.times.end()); };
  const auto count = [](const Timed& t) { return static_cast<double>(t.model.parameters().count()); };
  const int64_t length = in.task.length();
  const bool stream = in.task.lanes() > 0;
  out.scalar(
      "time_ratio", least(own) / least(plain),
      "shortest training step over that of the plain head; other work on the machine only adds to times");
  out.scalar("time_ratio_median", median(own.times) / median(plain.times), "the same with medians");
  out.scalar("step_ms", 1e3 * least(own), "shortest training step, milliseconds");
  out.scalar("vanilla_step_ms", 1e3 * least(plain), "that of the plain head, milliseconds");
  out.scalar("flop_ratio",
             own.model.flops_per_token(length, stream) / plain.model.flops_per_token(length, stream),
             "floating-point operations of a token over those with the plain head");
  out.scalar("parameter_ratio", count(own) / count(plain), "parameters over those with the plain head");
  out.scalar("extra_parameters", count(own) - count(plain), "parameters beyond those with the plain head");
  out.array("step_seconds", own.times, {repeats}, {"repeat"}, "mean training step of each timing, seconds");
  out.array("vanilla_step_seconds", plain.times, {repeats}, {"repeat"}, "those of the plain head, seconds");
}

double plan(const MeasureInput& in) {
  const double steps = 1 + static_cast<double>(in.settings.integer("measure.overhead.repeats") *
                                               in.settings.integer("measure.overhead.steps"));
  const TrainPlan plan = train_plan(in.settings, in.task);
  return 2 * steps * 3 * in.pass_flops(static_cast<double>(plan.sequences_per_step()));
}

}  // namespace

const MeasureEntry overhead_measure = {
    "overhead", "step time, arithmetic and parameters against the plain head on the same backbone (C7, C8)",
    fields, run, plan};

}  // namespace copylab
