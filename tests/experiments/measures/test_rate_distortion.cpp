// rate_distortion: the bottleneck against closed forms and finite differences, and at answers known
// beforehand.
#include "experiments/measures/rate_distortion.h"

#include <cmath>

#include "core/random.h"
#include "experiments/check/check_settings.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/measures/variational_bottleneck.h"
#include "tests/catch.h"
#include "tests/experiments/marked_task.h"

using namespace copylab;

namespace {

using Point = VariationalBottleneck::Point;

// Labels 0..classes-1 in turn; states hold the label one-hot (then noise), or noise alone.
LabelledStates labelled(int64_t n, int64_t classes, bool informative, uint64_t seed) {
  LabelledStates out{Matrix(n, classes + 2), {}};
  const Random random(seed, "test.states");
  for (int64_t i = 0; i < out.h.size(); ++i) out.h.data()[i] = 0.1 * random.normal(static_cast<uint64_t>(i));
  for (int64_t i = 0; i < n; ++i) {
    out.labels.push_back(static_cast<int32_t>(i % classes));
    if (informative) out.h(i, i % classes) += 2;
  }
  return out;
}

}  // namespace

TEST_CASE("rate: KL of a diagonal Gaussian from the standard one", "[measures][meta]") {
  Matrix mean(1, 2), log_variance(1, 2);
  mean << 0.0, 0.0;
  log_variance << 0.0, 0.0;
  CHECK(gaussian_kl(mean, log_variance) == 0.0);
  mean << 1.0, -2.0;
  log_variance << std::log(4.0), 0.0;
  CHECK(gaussian_kl(mean, log_variance) == Approx(0.5 * (1 + 4 + 4 - 1 - std::log(4.0))));
  // Against an integral: N(0.5, 0.8²).
  mean.resize(1, 1), log_variance.resize(1, 1);
  mean << 0.5;
  log_variance << 2 * std::log(0.8);
  double sum = 0;
  const double step = 1e-3;
  for (double x = -8; x < 8; x += step) {
    const double p = std::exp(-0.5 * std::pow((x - 0.5) / 0.8, 2)) / (0.8 * std::sqrt(2 * M_PI));
    sum += step * p * (-std::log(0.8) - 0.5 * std::pow((x - 0.5) / 0.8, 2) + 0.5 * x * x);
  }
  CHECK(gaussian_kl(mean, log_variance) == Approx(sum).epsilon(1e-6));
}

TEST_CASE("bottleneck: gradients are those of the loss", "[measures][meta]") {
  const LabelledStates states = labelled(7, 3, true, 1);
  VariationalBottleneck bottleneck(5, 2, 3, 4);
  Matrix noise(7, 2);
  const Random random(2, "test.noise");
  for (int64_t i = 0; i < noise.size(); ++i) noise.data()[i] = random.normal(static_cast<uint64_t>(i));
  std::vector<double>& p = bottleneck.parameters();
  for (size_t i = 0; i < p.size(); ++i) p[i] += 0.3 * random.normal(1000 + i);  // no part at zero
  std::vector<double> gradient;
  bottleneck.loss(states, noise, 0.3, &gradient);
  REQUIRE(gradient.size() == p.size());
  for (size_t i = 0; i < p.size(); ++i) {
    const double before = p[i], step = 1e-5;
    p[i] = before + step;
    const double above = bottleneck.loss(states, noise, 0.3);
    p[i] = before - step;
    const double below = bottleneck.loss(states, noise, 0.3);
    p[i] = before;
    CHECK(gradient[i] == Approx((above - below) / (2 * step)).margin(1e-8));
  }
}

TEST_CASE("bottleneck: rate buys distortion, no more than information allows", "[measures][meta]") {
  constexpr int64_t classes = 4;
  const LabelledStates train = labelled(200, classes, true, 1), test = labelled(100, classes, true, 2);
  std::vector<Point> curve;
  for (const double beta : {10.0, 0.5, 0.1, 0.01}) {
    VariationalBottleneck bottleneck(classes + 2, 3, classes, 5);
    bottleneck.train(train, beta, 300, 0.02);
    curve.push_back(bottleneck.measure(test, 16));
  }
  // I(z; y) >= H(y) - distortion, and the rate bounds it from above.
  for (const Point& point : curve) CHECK(point.rate + point.distortion > std::log(4.0) - 0.02);
  CHECK(curve.front().rate < 0.01);
  CHECK(curve.front().distortion == Approx(std::log(4.0)).margin(0.02));
  CHECK(curve.back().distortion < 0.05);
  CHECK(curve.back().accuracy > 0.98);
  for (size_t i = 1; i < curve.size(); ++i) {
    CHECK(curve[i].rate > curve[i - 1].rate);
    CHECK(curve[i].distortion < curve[i - 1].distortion);
  }
}

TEST_CASE("bottleneck: states without information are worth no rate", "[measures][meta]") {
  const LabelledStates train = labelled(400, 4, false, 1), test = labelled(100, 4, false, 2);
  VariationalBottleneck bottleneck(6, 3, 4, 5);
  bottleneck.train(train, 0.5, 300, 0.02);
  const Point point = bottleneck.measure(test, 16);
  CHECK(point.rate < 0.05);
  CHECK(point.distortion == Approx(std::log(4.0)).margin(0.05));
  CHECK(point.accuracy < 0.4);
}

TEST_CASE("curves are compared over the rates that both reach", "[measures][meta]") {
  const std::vector<Point> a = {{0, 2, 0}, {4, 0, 0}};  // distortion 2 - rate/2
  CHECK(share_below(a, {{1, 1, 0}, {3, 1, 0}}) == Approx(0.5).margin(1e-3));
  CHECK(share_below(a, {{3, 1, 0}, {1, 1, 0}}) == Approx(0.5).margin(1e-3));  // in any order
  CHECK(share_below(a, {{0, 3, 0}, {2, 2, 0}, {4, 1, 0}}) == 1.0);
  CHECK(share_below({{0, 3, 0}, {2, 2, 0}, {4, 1, 0}}, a) == 0.0);
  CHECK(std::isnan(share_below(a, {{5, 1, 0}, {6, 1, 0}})));
}

TEST_CASE("rate_distortion: a last token that reads the answer beats a meta-token that does not",
          "[measures][meta]") {
  // SpamLang: the token itself is the answer. The states of meta-tokens see it through attention alone.
  const Settings settings =
      check_settings({"run.measures=rate_distortion", "task.vocab=5",
                      "measure.rate_distortion.train_sequences=80", "measure.rate_distortion.sequences=40",
                      "measure.rate_distortion.width=3", "measure.rate_distortion.betas=3",
                      "measure.rate_distortion.steps=200", "measure.rate_distortion.rate=0.03"});
  const testing::MarkedTask task(settings);
  const auto model = make_model(settings, task, cpu_backend());
  model->initialise(1);
  MeasureOutput out;
  rate_distortion_measure.run({*model, nullptr, task, settings, cpu_backend(), 1}, out);
  const auto& distortion = out.arrays.at("distortion").values;
  REQUIRE(distortion.size() == 9);
  const double null = out.arrays.at("label_entropy").values[0];
  CHECK(null == Approx(std::log(5.0)).margin(0.25));
  CHECK(distortion[2] < 0.5 * null);  // last token, beta = 0.01
  CHECK(out.coordinates.at("beta")[0] == 1.0);
  CHECK(out.coordinates.at("beta")[2] == Approx(0.01));
  CHECK(out.arrays.at("sequences").values[0] == 40);
}
