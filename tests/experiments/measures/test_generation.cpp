// generation: repetition counted by hand, and the measure on models that can and cannot copy.
#include <cmath>

#include "experiments/check/check_settings.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/measures/generation.h"
#include "tests/catch.h"

using namespace copylab;

TEST_CASE("generation: repeated n-grams and loops by hand", "[measures]") {
  const std::vector<int32_t> text = {1, 2, 1, 2, 1, 3};
  CHECK(repeated_ngrams(text, 1) == Approx(3.0 / 6));  // 1 2 3 are new
  CHECK(repeated_ngrams(text, 2) == Approx(2.0 / 5));  // 12 21 | 12 21 | 13
  CHECK(repeated_ngrams(text, 3) == Approx(1.0 / 4));  // 121 212 | 121 | 213
  CHECK(repeated_ngrams(text, 6) == 0);
  CHECK(std::isnan(repeated_ngrams(text, 7)));

  CHECK(loop_period({5, 5, 5, 5}, 4) == 1);
  CHECK(loop_period({9, 8, 1, 2, 1, 2, 1, 2}, 4) == 2);
  CHECK(loop_period({1, 2, 3, 1, 2, 3, 1, 2}, 4) == 3);
  CHECK(loop_period({1, 2, 3, 1, 2, 3, 1, 2}, 2) == 0);  // its period is longer
  CHECK(loop_period({1, 1, 1, 1, 1, 1, 1, 2}, 4) == 0);  // the end breaks it
  CHECK(loop_period({}, 4) == 0);
}

TEST_CASE("generation: floors are rows, and a full share of the LM head is the LM head", "[measures]") {
  const Settings settings =
      check_settings({"head.kind=copy_paste", "task.vocab=16", "run.measures=generation",
                      "measure.generation.prompts=4", "measure.generation.prompt_length=4",
                      "measure.generation.tokens=12", "measure.generation.lm_floors=[0, 100]"});
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = make_model(settings, *task, cpu_backend());
  model->initialise(2);
  MeasureOutput out;
  generation_measure.run({*model, nullptr, *task, settings, cpu_backend(), 1}, out);
  CHECK(out.coordinates.at("lm_floor") == std::vector<double>{0, 1});
  CHECK(out.arrays.at("repeated").shape == std::vector<int64_t>{2, 4});
  CHECK(out.arrays.at("prompts").values[0] == 4);
  for (const double share : out.arrays.at("loops").values) CHECK((share >= 0 && share <= 1));
  CHECK(out.arrays.at("loop_rate_change").values[0] ==
        Approx(out.arrays.at("loops").values[1] - out.arrays.at("loops").values[0]));
}
