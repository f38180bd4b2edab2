// Estimates: what evaluation and measures cost, and measures that cannot go with a run found before it
// trains.
#include "experiments/plan/estimate.h"

#include "experiments/check/check_settings.h"
#include "experiments/config/error.h"
#include "experiments/measures/measure.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using copylab::testing::contains;
using copylab::testing::message_of;

namespace {

Estimate of(std::vector<std::string> changes) {
  return estimate(check_settings(changes));
}

}  // namespace

TEST_CASE("Estimate: forward passes of evaluation and measures", "[plan]") {
  const Estimate plain = of({});
  const double pass = 16 * plain.flops_per_token;  // of one sequence
  CHECK(plain.measure_flops == 0);
  // At 0, 25, …, 175 and 200 of 200 steps, then the test split.
  CHECK(plain.evaluation_flops == Approx((9 * 16 + 32) * pass));
  CHECK(plain.flops() == plain.training_flops() + plain.evaluation_flops);

  const std::string measure = "run.measures=copy_behaviour",
                    sequences = "measure.copy_behaviour.sequences=10";
  const Estimate measured = of({measure, sequences});
  CHECK(measured.measure_flops == Approx(10 * pass));
  const Estimate idle = of({measure, sequences, "train.steps=0"});
  CHECK(idle.training_flops() == 0);
  CHECK(idle.measure_flops == Approx(10 * pass));
  CHECK(idle.evaluation_flops == Approx(32 * pass));
  // Once for each checkpoint: 0, the last, and two between.
  const Estimate often =
      of({measure, sequences, "train.keep=2", "measure.copy_behaviour.over_training=true"});
  CHECK(often.measure_flops == Approx(5 * 10 * pass));
  // A model that has not moved is measured once.
  const double both = of({"run.measures=head_gradient"}).measure_flops;
  CHECK(of({"run.measures=head_gradient", "train.steps=0"}).measure_flops == Approx(both / 2));
}

TEST_CASE("Estimate: every measure that reads the model costs something", "[plan]") {
  for (const MeasureEntry& measure : measure_registry()) {
    const std::string name = measure.name;
    // Of text, of prompts, of meta-tokens alone.
    if (name == "transfer" || name == "meta_path" || name == "meta_attention_entropy" ||
        name == "rate_distortion")
      continue;
    CAPTURE(name);
    const double flops = of({"run.measures=" + name}).measure_flops;
    if (name == "cache")
      CHECK(flops == 0);
    else
      CHECK(flops > 16 * of({}).flops_per_token);
  }
}

TEST_CASE("Estimate: settings of measures that cannot go with the run are errors of the configuration",
          "[plan]") {
  const auto problem = [](const std::string& measure, const std::vector<std::string>& changes) {
    std::vector<std::string> all = {"run.measures=" + measure};
    all.insert(all.end(), changes.begin(), changes.end());
    const Settings settings = check_settings(all);
    std::string text;
    try {
      expect_consistent(settings);
    } catch (const ConfigError& error) {
      text = error.what();
    }
    return text;
  };
  const std::vector<std::string> text = {"task.name=text", "task.corpus=tinyshakespeare", "task.level=byte"};
  const auto on_text = [&](std::vector<std::string> changes) {
    changes.insert(changes.begin(), text.begin(), text.end());
    return changes;
  };
  // The test split has some 55,000 bytes.
  CHECK(problem("head_gradient", on_text({"measure.head_gradient.positions=1000"})) == "");
  for (const std::string name : {"head_gradient", "update_efficiency"})
    CHECK(problem(name, on_text({"measure." + name + ".positions=100000"})) ==
          "measure." + name +
              ".positions: 100000 labelled positions asked for, and the test split has fewer");
  CHECK(contains(problem("gradient_rank", on_text({"measure.gradient_rank.tokens=[256, 100000]"})),
                 "measure.gradient_rank.tokens: 100000 labelled positions"));
  CHECK(
      contains(problem("gradient_rank", {"measure.gradient_rank.tokens=[512, 256]"}), "ascending positive"));
  CHECK(contains(problem("head_gradient", {"head.kind=mixture_of_softmaxes"}),
                 "a head of one softmax expected"));
  CHECK(contains(problem("copy_gradient", {"head.kind=mixture_of_softmaxes"}),
                 "a head of one softmax expected"));
  CHECK(contains(problem("mixture_rank", {"head.kind=mixture_of_softmaxes"}),
                 "a head of one softmax expected"));
  CHECK(contains(problem("induction", {"measure.induction.blocks=[8, 65]"}), "ascending lengths of 2..64"));
  CHECK(contains(problem("induction", {"measure.induction.score_block=65"}), "a length of 2..64"));
  CHECK(contains(problem("induction", {"measure.induction.ids=[5]"}), "first and last id within 0..63"));
  CHECK(contains(problem("head_knockout", {"measure.head_knockout.block=65"}), "a length of 2..64"));
  CHECK(contains(problem("head_knockout", {"measure.head_knockout.top=[3]"}),
                 "ascending numbers of 1..2 heads"));
  CHECK(contains(problem("exact_match", {"measure.exact_match.lengths=[2]"}), "ascending from 1"));
  CHECK(contains(problem("neural_cache", {"measure.neural_cache.windows=[-1]"}), "of at least 0"));
  CHECK(contains(problem("neural_cache", {"measure.neural_cache.theta_min=20"}), "at most theta_max = 10"));
  CHECK(contains(problem("cache", {"measure.cache.lengths=[0]"}), "positive lengths expected: got 0"));
  CHECK(contains(problem("two_dimensions", {"measure.two_dimensions.vocabs=[1]"}), "at least two tokens"));
  CHECK(contains(problem("transfer", {}), "a run on text expected: got task.name=spamlang"));
}
