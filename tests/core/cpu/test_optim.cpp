// Optimizer kernels on the CPU: exact steps against the published formulas, and what they may touch.
#include <cmath>

#include "core/backend.h"
#include "tests/core/cpu/buffers.h"

using namespace copylab;
using copylab::testing::Guarded;
using copylab::testing::normal;

TEMPLATE_TEST_CASE("adamw follows the formulas of decoupled weight decay", "[optim]", float, double) {
  using T = TestType;
  const int64_t n = 4099;
  const double lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, clip = 0.5;
  auto p = normal<T>("p", n), m = Guarded<T>(n), v = Guarded<T>(n);
  std::vector<double> want_p(p.data(), p.data() + n), want_m(n), want_v(n);
  for (int step = 1; step <= 3; ++step) {
    auto g = normal<T>("g" + std::to_string(step), n);
    g[17] = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double scaled = clip * double(g[i]);
      want_m[i] = beta1 * want_m[i] + (1 - beta1) * scaled;
      want_v[i] = beta2 * want_v[i] + (1 - beta2) * scaled * scaled;
      const double m_hat = want_m[i] / (1 - std::pow(beta1, step));
      const double v_hat = want_v[i] / (1 - std::pow(beta2, step));
      want_p[i] -= lr * decay * want_p[i] + lr * m_hat / (std::sqrt(v_hat) + eps);
    }
    cpu_backend().kernels<T>().adamw({.n = n,
                                      .param = p.data(),
                                      .grad = g.data(),
                                      .m = m.data(),
                                      .v = v.data(),
                                      .lr = T(lr),
                                      .beta1 = T(beta1),
                                      .beta2 = T(beta2),
                                      .eps = T(eps),
                                      .weight_decay = T(decay),
                                      .bias1 = T(1 - std::pow(beta1, step)),
                                      .bias2 = T(1 - std::pow(beta2, step)),
                                      .grad_scale = T(clip),
                                      .zero_grad = true});
    for (int64_t i = 0; i < n; ++i) REQUIRE(g[i] == 0);
    CHECK((g.intact() && p.intact() && m.intact() && v.intact()));
  }
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) worst = std::max(worst, std::fabs(double(p[i]) - want_p[i]));
  CHECK(worst < (sizeof(T) == 4 ? 1e-6 : 1e-14));
}

TEST_CASE("adamw: the first step is lr in size, and zeros stay zeros", "[optim]") {
  Guarded<float> p(3), g(3), m(3), v(3);
  g[0] = 3e-3f;
  g[1] = -500.f;
  cpu_backend().f32.adamw({3, p.data(), g.data(), m.data(), v.data(), 0.25f, 0.9f, 0.999f, 1e-12f, 0.f, 0.1f,
                           0.001f, 1.f, false});
  CHECK(p[0] == Approx(-0.25).epsilon(1e-5));
  CHECK(p[1] == Approx(0.25).epsilon(1e-5));
  CHECK(p[2] == 0.f);     // padding between parameters must not drift
  CHECK(g[1] == -500.f);  // kept when zero_grad is off
}

TEST_CASE("sgd: step, decay, clipping and clearing", "[optim]") {
  Guarded<double> p(5, 2.0), g(5, 3.0);
  cpu_backend().f64.sgd(p.data(), g.data(), 5, 0.1, 0.01, 0.5, true, {});
  for (int i = 0; i < 5; ++i) {
    CHECK(p[i] == Approx(2.0 - 0.1 * 0.01 * 2.0 - 0.1 * 0.5 * 3.0).epsilon(1e-15));
    CHECK(g[i] == 0.0);
  }
  CHECK((p.intact() && g.intact()));
}

TEST_CASE("optimizer steps give the same bits for any number of threads", "[optim][threads]") {
  testing::same_for_all_threads([&] {
    const int64_t n = 100003;
    auto p = normal<float>("p", n), g = normal<float>("g", n), m = normal<float>("m", n),
         v = normal<float>("v", n);
    for (int64_t i = 0; i < n; ++i) v[i] = std::fabs(v[i]);
    cpu_backend().f32.adamw({n, p.data(), g.data(), m.data(), v.data(), 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.2f,
                             0.1f, 0.7f, false});
    return std::vector{p, m, v};
  });
}
