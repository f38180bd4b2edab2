// Statistics over seeds: means with Student's t intervals.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace copylab {

// Mean and 95 % t-interval of independent values. One value has no interval: low and high are NaN. No values:
// all are NaN.
struct MeanInterval {
  double mean, low, high;
  size_t n;
};
MeanInterval mean_interval(const std::vector<double>& values);

// The t with P(|T| < t) = confidence for `dof` >= 1 degrees of freedom.
double t_quantile(double confidence, int dof);

// The value at x > 0 of a curve through points (x, y), x ascending: straight over log x between neighbours,
// and constant beyond the last. NaN before the first.
double interpolate_log(const std::vector<std::pair<double, double>>& points, double x);

}  // namespace copylab
