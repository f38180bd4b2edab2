// Vector exp, log and log1p against the scalar functions in higher precision, and their special values.
#include "core/cpu/simd.h"

#include <cmath>
#include <vector>

#include "core/random.h"
#include "tests/catch.h"

using namespace copylab;
namespace simd = copylab::cpu::simd;

namespace {

// Largest error of f on `xs`, in units of the last place of the exact result.
template <class T, class F, class G>
double worst_ulp(const std::vector<T>& xs, F f, G exact) {
  std::vector<T> ys(xs.size());
  simd::map(xs.data(), ys.data(), static_cast<int64_t>(xs.size()), f);
  double worst = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const long double want = exact(static_cast<long double>(xs[i]));
    const T rounded = static_cast<T>(want);
    const long double unit =
        std::nextafter(std::fabs(rounded), std::numeric_limits<T>::infinity()) - std::fabs(rounded);
    worst = std::max(worst, static_cast<double>(std::fabs(ys[i] - want) / unit));
  }
  return worst;
}

template <class T>
std::vector<T> uniform(double low, double high, int n) {
  const Random random(3, "simd");
  std::vector<T> xs(n);
  for (int i = 0; i < n; ++i) xs[i] = static_cast<T>(low + (high - low) * random.uniform(i));
  return xs;
}

template <class T>
T one(simd::Vec<T> (*f)(simd::Vec<T>), T x) {
  return f(simd::broadcast(x))[0];
}

}  // namespace

TEMPLATE_TEST_CASE("vector exp and log are within two units in the last place", "[simd]", float, double) {
  using T = TestType;
  using V = simd::Vec<T>;
  const auto exp = [](V x) { return simd::exp(x); };
  const auto log = [](V x) { return simd::log(x); };
  const auto log1p = [](V x) { return simd::log1p(x); };
  const auto exact_exp = [](long double x) { return std::exp(x); };
  const auto exact_log = [](long double x) { return std::log(x); };
  const auto exact_log1p = [](long double x) { return std::log1p(x); };
  const int n = 100003;
  const double low = sizeof(T) == 4 ? -86.9 : -707, high = sizeof(T) == 4 ? 88.7 : 709.7;
  CHECK(worst_ulp(uniform<T>(low, high, n), exp, exact_exp) < 2);
  CHECK(worst_ulp(uniform<T>(-1, 1, n), exp, exact_exp) < 2);
  CHECK(worst_ulp(uniform<T>(1e-30, 1e-20, n), log, exact_log) < 2);
  CHECK(worst_ulp(uniform<T>(0.5, 2, n), log, exact_log) < 2);
  CHECK(worst_ulp(uniform<T>(1, 1e30, n), log, exact_log) < 2);
  CHECK(worst_ulp(uniform<T>(-0.5, 1, n), log1p, exact_log1p) < 2.5);
  CHECK(worst_ulp(uniform<T>(-1e-6, 1e-6, n), log1p, exact_log1p) < 2);
}

TEMPLATE_TEST_CASE("vector exp and log at special values", "[simd]", float, double) {
  using T = TestType;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  CHECK(one<T>(simd::exp, 0) == 1);
  CHECK(one<T>(simd::exp, T(-0.0)) == 1);
  CHECK(one<T>(simd::exp, -inf) == 0);
  CHECK(one<T>(simd::exp, -100000) == 0);
  CHECK(one<T>(simd::exp, 100000) == inf);
  CHECK(one<T>(simd::exp, inf) == inf);
  CHECK(std::isnan(one<T>(simd::exp, nan)));
  CHECK(one<T>(simd::log, 1) == 0);
  CHECK(one<T>(simd::log, 0) == -inf);
  CHECK(one<T>(simd::log, inf) == inf);
  CHECK(std::isnan(one<T>(simd::log, -1)));
  CHECK(std::isnan(one<T>(simd::log, nan)));
  const T denormal = std::numeric_limits<T>::denorm_min();
  CHECK(one<T>(simd::log, denormal) == Approx(std::log(denormal)));
  CHECK(one<T>(simd::log1p, 0) == 0);
  CHECK(one<T>(simd::log1p, -1) == -inf);
  CHECK(one<T>(simd::log1p, inf) == inf);
  CHECK(std::isnan(one<T>(simd::log1p, nan)));
}

TEMPLATE_TEST_CASE("lanes: partial loads and stores, folds", "[simd]", float, double) {
  using T = TestType;
  constexpr int lanes = simd::kLanes<T>;
  std::vector<T> x(lanes);
  for (int i = 0; i < lanes; ++i) x[i] = T(i + 1);
  const auto v = simd::load_partial(x.data(), 1, T(-5));
  CHECK(v[0] == 1);
  CHECK(v[1] == -5);
  std::vector<T> y(lanes, T(9));
  simd::store_partial(y.data(), simd::load(x.data()), 1);
  CHECK(y[0] == 1);
  CHECK(y[1] == 9);
  CHECK(simd::sum(simd::load(x.data())) == T(lanes * (lanes + 1) / 2));
  CHECK(simd::max_lane(simd::load(x.data())) == T(lanes));
}
