// Reductions on the CPU: sums in double, finiteness, and projection of gradients.
#include <cmath>
#include <limits>

#include "core/backend.h"
#include "tests/core/cpu/buffers.h"

using namespace copylab;
using copylab::testing::Guarded;
using copylab::testing::normal;

TEMPLATE_TEST_CASE("weighted_sum and sum_of_squares", "[reduce]", float, double) {
  using T = TestType;
  const auto& k = cpu_backend().kernels<T>();
  for (const int64_t n : {0, 1, 7, 1000, 50001}) {
    CAPTURE(n);
    const auto x = normal<T>("x", n), w = normal<T>("w", n);
    double plain = 0, weighted = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      plain += double(x[i]);
      weighted += double(x[i]) * double(w[i]);
      squares += double(x[i]) * double(x[i]);
    }
    const double epsilon = sizeof(T) == 4 ? 1e-6 : 1e-12;
    Guarded<T> out(1, T(9));
    k.weighted_sum(x.data(), nullptr, out.data(), n);
    CHECK(out[0] == Approx(plain).epsilon(epsilon));
    k.weighted_sum(x.data(), w.data(), out.data(), n);
    CHECK(out[0] == Approx(weighted).epsilon(epsilon));
    CHECK(out.intact());
    CHECK(k.sum_of_squares(x.data(), n) == Approx(squares).epsilon(1e-12));
  }
}

TEST_CASE("sums of float accumulate in double", "[reduce]") {
  const int64_t n = 1 << 20;
  const Guarded<float> x(n, 0.1f);
  Guarded<float> out(1);
  cpu_backend().f32.weighted_sum(x.data(), nullptr, out.data(), n);
  CHECK(out[0] == static_cast<float>(double(0.1f) * n));
  const Guarded<float> large(3, 1e30f);  // squares beyond float
  CHECK(cpu_backend().f32.sum_of_squares(large.data(), 3) == Approx(3e60).epsilon(1e-6));
}

TEMPLATE_TEST_CASE("all_finite finds one bad value anywhere", "[reduce]", float, double) {
  using T = TestType;
  const auto& k = cpu_backend().kernels<T>();
  const T inf = std::numeric_limits<T>::infinity();
  auto x = normal<T>("x", 40001);
  x[5] = std::numeric_limits<T>::max();
  x[6] = std::numeric_limits<T>::lowest();
  CHECK(k.all_finite(x.data(), x.size(), false));
  CHECK(k.all_finite(x.data(), 0, false));
  for (const int64_t at : {0, 20000, 40000}) {
    const T good = x[at];
    for (const bool allow : {false, true}) {
      for (const T bad : {inf, std::numeric_limits<T>::quiet_NaN()}) {
        x[at] = bad;
        CHECK_FALSE(k.all_finite(x.data(), x.size(), allow));
      }
      x[at] = -inf;
      CHECK(k.all_finite(x.data(), x.size(), allow) == allow);
    }
    x[at] = good;
  }
}

TEST_CASE("project_rows projects on the basis and keeps the root mean square", "[reduce]") {
  const int64_t n = 37, dim = 5, rank = 2;
  const auto g = normal<double>("g", n * dim);
  Guarded<double> basis(dim * rank);  // e0 and (e1 + e2)/sqrt 2
  basis[0] = 1;
  basis[1 * rank + 1] = basis[2 * rank + 1] = std::sqrt(0.5);
  std::vector<double> kept(n * dim);
  double before = 0, after = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double* row = g.data() + i * dim;
    kept[i * dim] = row[0];
    kept[i * dim + 1] = kept[i * dim + 2] = (row[1] + row[2]) / 2;
    for (int64_t d = 0; d < dim; ++d) {
      before += row[d] * row[d];
      after += kept[i * dim + d] * kept[i * dim + d];
    }
  }
  for (const bool match : {false, true}) {
    Guarded<double> dx(n * dim, 0.5);
    cpu_backend().f64.project_rows(g.data(), basis.data(), dx.data(), n, dim, rank, match);
    const double scale = match ? std::sqrt(before / after) : 1;
    double worst = 0;
    for (int64_t i = 0; i < n * dim; ++i) worst = std::max(worst, std::fabs(dx[i] - 0.5 - scale * kept[i]));
    CHECK(worst < 1e-12);
    CHECK(dx.intact());
  }
  // A gradient with nothing in the subspace gives zero, not NaN.
  Guarded<double> outside(dim), dx(dim);
  outside[4] = 1;
  cpu_backend().f64.project_rows(outside.data(), basis.data(), dx.data(), 1, dim, rank, true);
  for (int64_t d = 0; d < dim; ++d) CHECK(dx[d] == 0);
}

TEST_CASE("reductions give the same bits for any number of threads", "[reduce][threads]") {
  const int64_t n = 300001;
  const auto x = normal<float>("x", n);
  testing::same_for_all_threads([&] {
    Guarded<double> out(1);
    Guarded<double> squares(1);
    const auto xd = normal<double>("x", n);
    cpu_backend().f64.weighted_sum(xd.data(), nullptr, out.data(), n);
    squares[0] = cpu_backend().f32.sum_of_squares(x.data(), n);
    return std::vector{out, squares};
  });
}
