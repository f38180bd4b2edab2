// Rank statistics, exact tests and intervals of shares, and log-spaced bins.
#include "experiments/measures/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace copylab {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<int64_t> ascending(const std::vector<double>& x) {
  std::vector<int64_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x[a] < x[b]; });
  return order;
}

// Ranks 1..n; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& x) {
  const std::vector<int64_t> order = ascending(x);
  std::vector<double> rank(x.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    while (end < order.size() && x[order[end]] == x[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) rank[order[i]] = 0.5 * static_cast<double>(first + 1 + end);
    first = end;
  }
  return rank;
}

}  // namespace

double auc(const std::vector<double>& scores, const std::vector<bool>& positive) {
  const std::vector<double> rank = ranks(scores);
  double sum = 0, positives = 0;
  for (size_t i = 0; i < rank.size(); ++i) {
    if (!positive[i]) continue;
    sum += rank[i];
    positives += 1;
  }
  const double negatives = static_cast<double>(rank.size()) - positives;
  if (positives == 0 || negatives == 0) return kNaN;
  return (sum - positives * (positives + 1) / 2) / (positives * negatives);
}

std::vector<double> roc_curve(const std::vector<double>& scores, const std::vector<bool>& positive,
                              int64_t points) {
  const double positives = static_cast<double>(std::count(positive.begin(), positive.end(), true));
  const double negatives = static_cast<double>(positive.size()) - positives;
  std::vector<double> curve(points, kNaN);
  if (positives == 0 || negatives == 0) return curve;
  std::vector<int64_t> order = ascending(scores);
  std::reverse(order.begin(), order.end());
  std::vector<double> x = {0}, y = {0};  // corners: both rates after each distinct score
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || scores[order[i]] != scores[order[i - 1]]) {
      x.push_back(x.back());
      y.push_back(y.back());
    }
    (positive[order[i]] ? y.back() : x.back()) += positive[order[i]] ? 1 / positives : 1 / negatives;
  }
  for (int64_t i = 0; i < points; ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(points - 1);
    const size_t k = std::upper_bound(x.begin(), x.end(), at) - x.begin();  // the first corner beyond
    curve[i] = k == x.size() ? 1.0 : y[k - 1] + (y[k] - y[k - 1]) * (at - x[k - 1]) / (x[k] - x[k - 1]);
  }
  return curve;
}

double spearman(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> a, b;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    a.push_back(x[i]);
    b.push_back(y[i]);
  }
  a = ranks(a);
  b = ranks(b);
  const double mean = 0.5 * static_cast<double>(a.size() + 1);
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    xx += (a[i] - mean) * (a[i] - mean);
    yy += (b[i] - mean) * (b[i] - mean);
    xy += (a[i] - mean) * (b[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : kNaN;
}

double mcnemar(int64_t a, int64_t b) {
  const double n = static_cast<double>(a + b);
  double tail = 0;  // P(at most min(a, b) of n)
  for (int64_t k = 0; k <= std::min(a, b); ++k) {
    const double i = static_cast<double>(k);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) - n * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

std::pair<double, double> wilson_interval(int64_t right, int64_t n) {
  if (n == 0) return {kNaN, kNaN};
  constexpr double z = 1.959963984540054;
  const double trials = static_cast<double>(n), share = static_cast<double>(right) / trials;
  const double shrink = 1 + z * z / trials, middle = (share + z * z / (2 * trials)) / shrink;
  const double half = z / shrink * std::sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials));
  return {right == 0 ? 0.0 : middle - half, right == n ? 1.0 : middle + half};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  if (n == 0) return std::nan("");
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<int64_t> half_octaves(int64_t largest) {
  std::vector<int64_t> ends;
  for (int64_t power = 1; power < largest; power *= 2)
    for (const int64_t end : {power, power * 3 / 2})
      if (end < largest && (ends.empty() || end > ends.back())) ends.push_back(end);
  ends.push_back(largest);
  return ends;
}

int64_t bin_of(const std::vector<int64_t>& upper_ends, int64_t x) {
  return std::lower_bound(upper_ends.begin(), upper_ends.end(), x) - upper_ends.begin();
}

}  // namespace copylab
