// mixture_rank: the dense mixture against its definition, and ranks known beforehand.
#include "experiments/measures/mixture_rank.h"

#include <cmath>

#include "core/error.h"
#include "tasks/spamlang.h"
#include "tests/catch.h"
#include "tests/experiments/measures/tiny_settings.h"

using namespace copylab;

TEST_CASE("log_mixture is the mixture of papers 2.3 and sums to one", "[mixture_rank]") {
  PointerTrace trace;
  trace.tokens = {2, 0, 2};
  trace.gate = {0, 0, 0.3};
  trace.sink = {1, 1, 0.4};
  trace.weights = Matrix::Zero(3, 3);
  trace.weights.row(2) << 0.1, 0.3, 0.2;
  Eigen::RowVectorXd lm(4);
  lm << 0.1, 0.2, 0.3, 0.4;
  const Eigen::RowVectorXd p = log_mixture(trace, 2, lm.array().log(), false).array().exp();
  const double share = 1 - 0.3 * 0.6;
  CHECK(p[0] == Approx(share * 0.1 + 0.3 * 0.3));
  CHECK(p[1] == Approx(share * 0.2));
  CHECK(p[2] == Approx(share * 0.3 + 0.3 * 0.3));  // two positions hold token 2
  CHECK(p.sum() == Approx(1.0));
  const Eigen::RowVectorXd dropped = log_mixture(trace, 2, lm.array().log(), true).array().exp();
  CHECK(dropped.sum() == Approx(1 - 0.3 * 0.4));
}

TEST_CASE("mixture_rank: the LM head is bounded by D and D + 1, the mixture is not", "[mixture_rank]") {
  const auto task = spamlang_task.make(task_settings(
      spamlang_task,
      {{"task.vocab", int64_t{60}}, {"task.length", int64_t{32}}, {"task.period", int64_t{16}}}));
  Settings settings = tiny_settings("copy_paste", true);
  settings.set("head.gate", std::string("sigmoid"));  // open from the start, so that copied tokens count
  settings.set("measure.mixture_rank.contexts", int64_t{200});
  nn::Model model(cpu_backend(), DType::f64, settings, 60, 32);
  model.allocate();
  model.initialise(2);
  MeasureOutput out;
  mixture_rank_measure.run({model, nullptr, *task, settings, cpu_backend(), 1}, out);
  const auto value = [&](const std::string& name) { return out.arrays.at(name).values.at(0); };
  CHECK(value("contexts") == 200);
  CHECK(value("logits_rank_exact") == 8);
  CHECK(value("log_softmax_rank_exact") == 9);
  CHECK(value("mixture_rank") > 16);
  CHECK(value("mixture_rank_over_bound") == Approx(value("mixture_rank") / 16));

  // The mixture that is built must be the head's: of a head that loses the sink's mass it is not.
  Settings other = settings;
  other.set("head.sink", std::string("dropped"));
  MeasureOutput none;
  CHECK_THROWS_AS(mixture_rank_measure.run({model, nullptr, *task, other, cpu_backend(), 1}, none), Error);
}
