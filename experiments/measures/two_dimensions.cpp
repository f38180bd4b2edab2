// two_dimensions: two hidden dimensions suffice to put any token on top.
#include "experiments/measures/two_dimensions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace copylab {

template <class T>
CircleHead circle_head(int64_t vocab) {
  std::vector<T> x(vocab), y(vocab);
  for (int64_t v = 0; v < vocab; ++v) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(v) / static_cast<double>(vocab);
    x[v] = static_cast<T>(std::cos(angle));
    y[v] = static_cast<T>(std::sin(angle));
  }
  int64_t right = 0;
  T margin = std::numeric_limits<T>::infinity();
  for (int64_t v = 0; v < vocab; ++v) {
    T others = -std::numeric_limits<T>::infinity();
    const auto logit = [&](int64_t u) { return x[u] * x[v] + y[u] * y[v]; };
    for (int64_t u = 0; u < v; ++u) others = std::max(others, logit(u));
    for (int64_t u = v + 1; u < vocab; ++u) others = std::max(others, logit(u));
    const T gap = logit(v) - others;
    right += gap > 0;
    margin = std::min(margin, gap);
  }
  return {static_cast<double>(right) / static_cast<double>(vocab), static_cast<double>(margin)};
}
template CircleHead circle_head<float>(int64_t);
template CircleHead circle_head<double>(int64_t);

namespace {

std::vector<Field> fields() {
  return {
      {"measure.two_dimensions.vocabs", std::vector<int64_t>{16, 256, 4096, 16384}, "numbers of tokens V"}};
}

const std::vector<int64_t>& vocabs_of(const MeasureInput& in) {
  const std::vector<int64_t>& vocabs = in.settings.integers("measure.two_dimensions.vocabs");
  expect_config(!vocabs.empty() && *std::min_element(vocabs.begin(), vocabs.end()) >= 2,
                "measure.two_dimensions.vocabs: numbers of at least two tokens expected");
  return vocabs;
}

// A property of the construction: the model is not looked at.
void run(const MeasureInput& in, MeasureOutput& out) {
  const std::vector<int64_t>& vocabs = vocabs_of(in);
  std::vector<double> f64, f32, margin;
  for (const int64_t vocab : vocabs) {
    const CircleHead exact = circle_head<double>(vocab);
    f64.push_back(exact.accuracy);
    margin.push_back(exact.margin);
    f32.push_back(circle_head<float>(vocab).accuracy);
  }
  const int64_t n = static_cast<int64_t>(vocabs.size());
  out.coordinate("vocab", std::vector<double>(vocabs.begin(), vocabs.end()));
  out.array("accuracy", f64, {n}, {"vocab"}, "top-1 accuracy of the circle in float64");
  out.array("accuracy_float32", f32, {n}, {"vocab"}, "the same in float32, where the margin 2π²/V² is lost");
  out.array("margin", margin, {n}, {"vocab"}, "smallest gap between the two largest logits, float64");
  out.scalar("worst_accuracy", *std::min_element(f64.begin(), f64.end()), "smallest float64 accuracy over V");
}

double plan(const MeasureInput& in) {
  double flops = 0;
  for (const int64_t vocab : vocabs_of(in))
    flops += (1 + kDouble) * 4 * static_cast<double>(vocab) * static_cast<double>(vocab);
  return flops;
}

}  // namespace

const MeasureEntry two_dimensions_measure = {
    "two_dimensions", "top-1 accuracy of output rows on a circle: D = 2 can express any token (G9)", fields,
    run, plan};

}  // namespace copylab
