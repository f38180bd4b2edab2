// Means, t-intervals and token savings against values known beforehand.
#include <cmath>

#include "experiments/verify/statistics.h"
#include "experiments/verify/token_saving.h"
#include "tests/catch.h"

using namespace copylab;

TEST_CASE("t quantiles are those of the printed tables", "[verify]") {
  const std::pair<int, double> table[] = {
      {1, 12.7062}, {2, 4.30265}, {3, 3.18245}, {4, 2.77645}, {9, 2.26216}};
  for (const auto& [dof, t] : table) REQUIRE(t_quantile(0.95, dof) == Approx(t).epsilon(1e-5));
  REQUIRE(t_quantile(0.99, 10) == Approx(3.16927).epsilon(1e-5));
}

TEST_CASE("Mean and interval of a few values", "[verify]") {
  const MeanInterval i = mean_interval({1, 2, 3});
  REQUIRE(i.mean == 2);
  REQUIRE(i.high - i.mean == Approx(4.30265 / std::sqrt(3.0)).epsilon(1e-5));
  REQUIRE(i.mean - i.low == Approx(i.high - i.mean));
  REQUIRE(std::isnan(mean_interval({5}).low));
  REQUIRE(mean_interval({5}).mean == 5);
  REQUIRE(std::isnan(mean_interval({}).mean));
}

TEST_CASE("Interpolation over the logarithm", "[verify]") {
  const std::vector<std::pair<double, double>> points = {{16, 5.0}, {64, 4.0}, {128, 3.0}};
  REQUIRE(interpolate_log(points, 16) == 5.0);
  REQUIRE(interpolate_log(points, 32) == Approx(4.5));
  REQUIRE(interpolate_log(points, 64) == 4.0);
  REQUIRE(interpolate_log(points, 64 * std::sqrt(2.0)) == Approx(3.5));
  REQUIRE(interpolate_log(points, 1e9) == 3.0);
  REQUIRE(std::isnan(interpolate_log(points, 15.9)));
  REQUIRE(std::isnan(interpolate_log({}, 1)));
}

TEST_CASE("Token saving: the first crossing, interpolated, before the cooldown", "[verify]") {
  const Curve reference{{0, 100, 200, 300, 400}, {8, 6, 5, 4, 1}};
  // Reaches 4 (the reference at 300) half way between 100 and 200.
  const Curve faster{{0, 100, 200, 300, 400}, {8, 5, 3, 2.5, 1}};
  REQUIRE(token_saving(faster, reference, 399) == Approx(2.0));
  REQUIRE(token_saving(reference, reference, 399) == Approx(1.0));
  // The other way round: the lowest value before the cooldown, 4, was the other's at 150, and it reached 300.
  REQUIRE(token_saving(reference, faster, 399) == Approx(0.5));
  // A curve that goes up again counts from its first crossing.
  const Curve bouncing{{0, 100, 200, 300}, {8, 4, 7, 3}};
  REQUIRE(token_saving(bouncing, reference, 300) == Approx(3.0));
  // Never lower than at the start: the reference had that from the beginning.
  const Curve flat{{0, 100, 300}, {8, 9, 9}};
  REQUIRE(token_saving(flat, reference, 300) == Approx(0.0));
  REQUIRE(std::isnan(token_saving({}, reference, 300)));
  REQUIRE(std::isnan(token_saving(reference, {}, 300)));
  // The reference counts up to its last point before the cooldown, not to a value between points.
  const Curve falling{{0, 100, 300}, {8, 4, 2}};
  REQUIRE(token_saving(falling, falling, 250) == Approx(1.0));
  REQUIRE(token_saving(falling, reference, 300) == Approx(3.0));
  // There from the start: no ratio.
  REQUIRE(std::isnan(token_saving({{0, 100}, {4, 3}}, reference, 300)));
  // The figures compute the same number: see plotting/tests/test_compare.py.
  REQUIRE(token_saving({{0, 70, 170}, {7.9, 5.3, 3.7}}, {{0, 90, 190}, {8.1, 6.1, 4.2}}, 190) ==
          Approx(190 / (70 + 100 * 1.1 / 1.6)).epsilon(1e-12));
}
