// Rank statistics at values known by hand.
#include "experiments/measures/statistics.h"

#include <cmath>

#include "core/random.h"
#include "tests/catch.h"

using namespace copylab;

TEST_CASE("auc counts the pairs in order, and ties half", "[statistics]") {
  CHECK(auc({1, 2, 3, 4}, {false, false, true, true}) == 1.0);
  CHECK(auc({4, 3, 2, 1}, {false, false, true, true}) == 0.0);
  // Pairs (positive, negative): (2,1) right, (2,2) tie, (5,1), (5,2) right.
  CHECK(auc({1, 2, 2, 5}, {false, false, true, true}) == Approx(3.5 / 4));
  CHECK(std::isnan(auc({1, 2}, {true, true})));
  CHECK(std::isnan(auc({1, 2}, {false, false})));
}

TEST_CASE("the area under roc_curve is auc", "[statistics]") {
  const Random random(3, "test_statistics");
  std::vector<double> scores;
  std::vector<bool> positive;
  for (int64_t i = 0; i < 60; ++i) {
    positive.push_back(random.below(2 * i, 3) == 0);
    scores.push_back(static_cast<double>(random.below(2 * i + 1, 20)) +
                     (positive.back() ? 5 : 0));  // with ties
  }
  const int64_t points = 20001;
  const std::vector<double> curve = roc_curve(scores, positive, points);
  double area = 0;
  for (int64_t i = 0; i + 1 < points; ++i) area += (curve[i] + curve[i + 1]) / 2 / (points - 1);
  CHECK(area == Approx(auc(scores, positive)).epsilon(1e-4));
  CHECK(roc_curve({1, 2, 3, 4}, {false, false, true, true}, 3) == std::vector<double>{1, 1, 1});
  CHECK(roc_curve({1, 1}, {false, true}, 3) == std::vector<double>{0, 0.5, 1});
}

TEST_CASE("spearman is the correlation of ranks", "[statistics]") {
  CHECK(spearman({1, 10, 100}, {-3, 0, 7}) == Approx(1.0));
  CHECK(spearman({1, 10, 100}, {7, 0, -3}) == Approx(-1.0));
  // Ranks of y: 1, 2.5, 2.5, 4: covariance 4.5, squares 5 and 4.5.
  CHECK(spearman({1, 2, 3, 4}, {0, 5, 5, 9}) == Approx(4.5 / std::sqrt(5 * 4.5)));
  CHECK(spearman({1, 2, 3}, {2, std::nan(""), 1}) == Approx(-1.0));
  CHECK(std::isnan(spearman({1, 2, 3}, {4, 4, 4})));
}

TEST_CASE("McNemar's exact test is a two-sided sign test of the pairs that differ", "[statistics]") {
  CHECK(mcnemar(1, 9) == Approx(2 * 11 / 1024.0).epsilon(1e-12));
  CHECK(mcnemar(9, 1) == mcnemar(1, 9));
  CHECK(mcnemar(0, 6) == Approx(2 / 64.0).epsilon(1e-12));
  CHECK(mcnemar(5, 5) == 1.0);
  CHECK(mcnemar(3, 4) == Approx(1.0));
  CHECK(mcnemar(0, 0) == 1.0);
  // The same sum by recurrence.
  double tail = 0, term = std::pow(0.5, 180);
  for (int64_t k = 0; k <= 59; ++k) {
    tail += term;
    term *= static_cast<double>(180 - k) / static_cast<double>(k + 1);
  }
  CHECK(mcnemar(59, 121) == Approx(2 * tail).epsilon(1e-10));
  CHECK(mcnemar(5000, 5000) == 1.0);
  CHECK(mcnemar(0, 5000) == 0.0);
}

TEST_CASE("Wilson's interval of a share", "[statistics]") {
  const auto [low, high] = wilson_interval(8, 10);
  CHECK(low == Approx(0.4901625).epsilon(1e-6));
  CHECK(high == Approx(0.9433178).epsilon(1e-6));
  CHECK(wilson_interval(0, 10).first == 0.0);
  CHECK(wilson_interval(0, 10).second == Approx(0.2775328).epsilon(1e-6));
  CHECK(wilson_interval(10, 10).second == 1.0);
  CHECK(wilson_interval(10, 10).first == Approx(1 - 0.2775328).epsilon(1e-6));
  CHECK(std::isnan(wilson_interval(0, 0).first));
}

TEST_CASE("half octaves cover a range once", "[statistics]") {
  CHECK(half_octaves(1) == std::vector<int64_t>{1});
  CHECK(half_octaves(10) == std::vector<int64_t>{1, 2, 3, 4, 6, 8, 10});
  CHECK(half_octaves(16) == std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12, 16});
  const std::vector<int64_t> ends = half_octaves(16);
  CHECK(bin_of(ends, 1) == 0);
  CHECK(bin_of(ends, 5) == 4);
  CHECK(bin_of(ends, 6) == 4);
  CHECK(bin_of(ends, 16) == 7);
}
