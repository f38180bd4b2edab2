// t quantiles by bisection on the finite series of Abramowitz & Stegun 26.7.3 and 26.7.4.
#include "experiments/verify/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/error.h"

namespace copylab {
namespace {

// P(|T| < sqrt(dof)·tan(theta)).
double central_probability(double theta, int dof) {
  const double sine = std::sin(theta), cosine = std::cos(theta);
  const int odd = dof % 2;
  double term = odd ? cosine : 1.0, total = 0;
  for (int k = 1 + odd; k < dof; k += 2) {  // the factors are k/(k+1)·cos²
    total += term;
    term *= static_cast<double>(k) / (k + 1) * cosine * cosine;
  }
  return odd ? 2 / std::numbers::pi * (theta + sine * total) : sine * total;
}

}  // namespace

double t_quantile(double confidence, int dof) {
  expect(dof >= 1 && confidence > 0 && confidence < 1, "t_quantile",
         "dof >= 1 and 0 < confidence < 1 expected: got {}, {}", dof, confidence);
  double low = 0, high = std::numbers::pi / 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (central_probability(middle, dof) < confidence ? low : high) = middle;
  }
  return std::sqrt(static_cast<double>(dof)) * std::tan((low + high) / 2);
}

MeanInterval mean_interval(const std::vector<double>& values) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const size_t n = values.size();
  if (n == 0) return {nan, nan, nan, 0};
  // Divided once: the mean of ones is one.
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
  if (n == 1) return {mean, nan, nan, 1};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double half =
      t_quantile(0.95, static_cast<int>(n) - 1) * std::sqrt(squares / static_cast<double>((n - 1) * n));
  return {mean, mean - half, mean + half, n};
}

double interpolate_log(const std::vector<std::pair<double, double>>& points, double x) {
  const auto right = std::find_if(points.begin(), points.end(), [&](const auto& p) { return p.first >= x; });
  if (points.empty() || x < points.front().first) return std::nan("");
  if (right == points.end()) return points.back().second;
  if (right == points.begin()) return right->second;
  const auto left = right - 1;
  const double share = std::log(x / left->first) / std::log(right->first / left->first);
  return left->second + share * (right->second - left->second);
}

}  // namespace copylab
