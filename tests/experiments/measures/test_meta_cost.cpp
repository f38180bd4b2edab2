// meta_cost: what it marks, and that it reports each form against the model without meta-attention.
#include "experiments/measures/meta_cost.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/experiments/small_model.h"

using namespace copylab;

TEST_CASE("meta_cost: every sequence gets as many marks, at places of its own", "[measures][meta]") {
  const int64_t rows = 5, length = 40;
  const std::vector<uint8_t> marks = random_marks(1, 0.1, rows, length);
  REQUIRE(marks.size() == rows * length);
  for (int64_t row = 0; row < rows; ++row)
    CHECK(std::count(marks.begin() + row * length, marks.begin() + (row + 1) * length, 1) == 4);
  CHECK(!std::equal(marks.begin(), marks.begin() + length, marks.begin() + length));
  CHECK(random_marks(1, 0.1, rows, length) == marks);
  CHECK(random_marks(2, 0.1, rows, length) != marks);
  const std::vector<uint8_t> few = random_marks(1, 0.0, 1, length), all = random_marks(1, 1.0, 1, length);
  CHECK(std::count(few.begin(), few.end(), 1) == 1);
  CHECK(std::count(all.begin(), all.end(), 1) == length);
}

TEST_CASE("meta_cost: ratios of parameters and arithmetic are those of the formula", "[measures][meta]") {
  testing::SmallModel small({"run.measures=meta_cost", "measure.meta_cost.repeats=3",
                             "measure.meta_cost.steps=1", "measure.meta_cost.share=0.25", "model.kv_heads=2",
                             "model.layers=2"});
  MeasureOutput out;
  meta_cost_measure.run({*small.model, nullptr, *small.task, small.settings, cpu_backend(), 1}, out);
  const auto value = [&](const char* name) { return out.arrays.at(name).values.at(0); };
  const double own = static_cast<double>(small.model->parameters().count());
  CHECK(value("parameter_ratio") == Approx((own + 2 * (4 * 16 * 16 + 16)) / own));
  // Four of sixteen rows, in two blocks; 2.5 keys on average, or sixteen rows and 8.5.
  const double flops = small.model->flops_per_token(16);
  CHECK(value("sparse_flop_ratio") == Approx(1 + 2 * 0.25 * (8 * 16 * 16 + 4 * 16 * 2.5) / flops));
  CHECK(value("dense_flop_ratio") == Approx(1 + 2 * (8 * 16 * 16 + 4 * 16 * 8.5) / flops));
  CHECK(value("meta_tokens") == 4);
  for (const char* name : {"sparse_step_ratio", "dense_step_ratio", "sparse_forward_ratio",
                           "dense_forward_ratio", "sparse_step_ratio_least", "without_step_ms"})
    CHECK(value(name) > 0);
  CHECK(out.arrays.at("step_seconds").values.size() == 9);
}
