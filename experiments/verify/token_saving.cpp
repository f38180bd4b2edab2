// First crossings of training curves.
#include "experiments/verify/token_saving.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"

namespace copylab {
namespace {

// Points at or before `last`.
Curve until(const Curve& curve, double last) {
  expect(
      curve.tokens.size() == curve.values.size() && std::is_sorted(curve.tokens.begin(), curve.tokens.end()),
      "token_saving", "as many values as ascending tokens expected: got {} and {}", curve.values.size(),
      curve.tokens.size());
  const size_t n = std::upper_bound(curve.tokens.begin(), curve.tokens.end(), last) - curve.tokens.begin();
  return {{curve.tokens.begin(), curve.tokens.begin() + static_cast<std::ptrdiff_t>(n)},
          {curve.values.begin(), curve.values.begin() + static_cast<std::ptrdiff_t>(n)}};
}

// Tokens at which the curve first is at or below `value`.
std::optional<double> first_at(const Curve& curve, double value) {
  for (size_t i = 0; i < curve.values.size(); ++i) {
    if (!(curve.values[i] <= value)) continue;
    if (i == 0) return curve.tokens[0];
    const double above = curve.values[i - 1], share = (above - value) / (above - curve.values[i]);
    return curve.tokens[i - 1] + share * (curve.tokens[i] - curve.tokens[i - 1]);
  }
  return std::nullopt;
}

}  // namespace

double token_saving(const Curve& curve, const Curve& reference, double last_tokens) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Curve own = until(curve, last_tokens), other = until(reference, last_tokens);
  if (own.tokens.empty() || other.tokens.empty()) return nan;
  const double reached = other.tokens.back();
  if (const auto tokens = first_at(own, other.values.back())) return *tokens > 0 ? reached / *tokens : nan;
  const auto tokens = first_at(other, *std::min_element(own.values.begin(), own.values.end()));
  return tokens && reached > 0 ? *tokens / reached : nan;
}

}  // namespace copylab
