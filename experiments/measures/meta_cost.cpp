// meta_cost: three models of one configuration, timed in turns in one process (M22).
#include "experiments/measures/meta_cost.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "core/ops/reduce.h"
#include "core/optim/optimizer.h"
#include "experiments/clock.h"
#include "experiments/evaluate/split_walk.h"
#include "experiments/measures/statistics.h"
#include "experiments/train/train_plan.h"
#include "experiments/train/trainer.h"
#include "tasks/distinct.h"

namespace copylab {

std::vector<uint8_t> random_marks(uint64_t seed, double share, int64_t rows, int64_t length) {
  const int64_t count = std::clamp<int64_t>(std::llround(share * static_cast<double>(length)), 1, length);
  std::vector<uint8_t> marks(rows * length, 0);
  for (int64_t row = 0; row < rows; ++row)
    for (const int32_t t : draw_distinct(Random(seed, "meta_cost", row), 0, count, 0, length))
      marks[row * length + t] = 1;
  return marks;
}

namespace {

const std::vector<std::string> kForms = {"without", "sparse", "dense"};

std::vector<Field> fields() {
  return {
      {"measure.meta_cost.share", 0.1,
       "share of positions, drawn at random in each sequence, that are taken for meta-tokens", 0.0, 1.0},
      {"measure.meta_cost.repeats", int64_t{15}, "times that each of the three is timed, in turns", 1, 10000},
      {"measure.meta_cost.steps", int64_t{2}, "updates, and forward passes, that are timed at once", 1,
       10000},
  };
}

Settings settings_of(const Settings& settings, const std::string& form) {
  Settings out = settings;
  if (form == "without")
    out.set("model.meta_attention", std::string("none"));
  else if (settings.text("model.meta_attention") == "none")
    out.set("model.meta_attention", std::string("all"));
  out.set("model.meta_dense", form == "dense");
  return out;
}

// A fresh model and its updates; the run's own weights are not touched.
struct Timed {
  Timed(const MeasureInput& in, const Settings& settings, double share, const TrainPlan& plan)
      : model(in.backend, DType::f32, settings, in.task.vocab(), in.task.length()),
        tape(in.backend),
        optimizer(prepared(share, in.seed), plan.optimizer) {}

  double step_seconds(const Batch& batch, int64_t steps) {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < steps; ++i) {
      tape.begin({});
      const nn::HeadOutput out = model.forward(tape, model_input(tape, batch));
      tape.backward(ops::weighted_sum(tape, nn::training_loss(tape, out)));
      optim::gradient_norm(model.parameters());
      optimizer.step(0.0, 1.0);  // as long as any other, and the weights stay
    }
    return seconds_since(begin) / static_cast<double>(steps);
  }
  double forward_seconds(const Batch& batch, int64_t passes) {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < passes; ++i) {
      tape.begin({.record = false, .training = false});
      nn::ModelInput input = model_input(tape, batch);
      input.want_argmax = true;
      model.forward(tape, input);
    }
    return seconds_since(begin) / static_cast<double>(passes);
  }

  nn::Model model;
  Tape tape;
  optim::Optimizer optimizer;
  std::vector<double> step, forward;

 private:
  nn::Parameters& prepared(double share, uint64_t seed) {
    model.expect_meta(share);
    model.allocate();
    model.initialise(seed);
    return model.parameters();
  }
};

void run(const MeasureInput& in, MeasureOutput& out) {
  const double share = in.settings.real("measure.meta_cost.share");
  const int64_t repeats = in.settings.integer("measure.meta_cost.repeats");
  const int64_t steps = in.settings.integer("measure.meta_cost.steps");
  const TrainPlan plan = train_plan(in.settings, in.task);
  Batch batch = in.task.batch(Split::train, in.seed, 0, plan.batch);
  batch.meta = random_marks(in.seed, share, batch.rows, batch.length);
  Batch one = in.task.batch(Split::train, in.seed, 0, 1);
  one.meta = random_marks(in.seed, share, 1, one.length);

  std::deque<Timed> forms;
  for (const std::string& form : kForms) forms.emplace_back(in, settings_of(in.settings, form), share, plan);
  for (Timed& form : forms) {  // memory is claimed, caches are warm
    form.step_seconds(batch, 1);
    form.forward_seconds(one, 1);
  }
  for (int64_t i = 0; i < repeats; ++i) {
    for (Timed& form : forms) form.step.push_back(form.step_seconds(batch, steps));
    for (Timed& form : forms) form.forward.push_back(form.forward_seconds(one, steps));
  }

  const int64_t count = static_cast<int64_t>(kForms.size());
  out.label("form", kForms);
  const auto report = [&](const char* what, std::vector<double> Timed::*times, const std::string& text) {
    std::vector<double> all;
    for (int64_t i = 0; i < count; ++i) {
      const std::vector<double>& own = forms[i].*times;
      all.insert(all.end(), own.begin(), own.end());
      out.scalar(fmt::format("{}_{}_ms", kForms[i], what), 1e3 * median(own),
                 fmt::format("median {}, meta-attention {}, milliseconds", text, kForms[i]));
      if (i == 0) continue;
      const std::vector<double>& base = forms[0].*times;
      out.scalar(fmt::format("{}_{}_ratio", kForms[i], what), median(own) / median(base),
                 fmt::format("median {} over that without meta-attention", text));
      out.scalar(fmt::format("{}_{}_ratio_least", kForms[i], what),
                 *std::min_element(own.begin(), own.end()) / *std::min_element(base.begin(), base.end()),
                 "the same with the shortest times; other work on the machine only adds to times");
    }
    out.array(fmt::format("{}_seconds", what), all, {count, repeats}, {"form", "repeat"},
              fmt::format("mean {} of each timing, seconds", text));
  };
  report("step", &Timed::step, "training step");
  report("forward", &Timed::forward,
         "forward pass of one sequence, as for the first token of an answer (nothing is cached)");

  const auto ratio = [&](int64_t form, const char* name, auto of) {
    out.scalar(fmt::format("{}_{}_ratio", kForms[form], name), of(forms[form]) / of(forms[0]),
               fmt::format("{} over those without meta-attention", name));
  };
  for (const int64_t form : {1, 2})
    ratio(form, "flop", [&](const Timed& t) { return t.model.flops_per_token(in.task.length()); });
  out.scalar("parameter_ratio",
             static_cast<double>(forms[1].model.parameters().count()) /
                 static_cast<double>(forms[0].model.parameters().count()),
             "parameters over those without meta-attention");
  out.scalar("meta_tokens", static_cast<double>(std::count(one.meta.begin(), one.meta.end(), 1)),
             "meta-tokens of a sequence");
}

double plan(const MeasureInput& in) {
  expect_config(in.task.lanes() == 0, "[meta_cost] independent sequences expected: task.lanes is {}",
                in.task.lanes());
  const double times = 1 + static_cast<double>(in.settings.integer("measure.meta_cost.repeats") *
                                               in.settings.integer("measure.meta_cost.steps"));
  const TrainPlan plan = train_plan(in.settings, in.task);
  return times * in.pass_flops(3 * (3 * static_cast<double>(plan.batch) + 1));
}

}  // namespace

const MeasureEntry meta_cost_measure = {
    "meta_cost", "step and forward time with meta-attention, gathered or masked, over those without (M22)",
    fields, run, plan};

}  // namespace copylab
