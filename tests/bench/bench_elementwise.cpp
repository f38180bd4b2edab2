// Kernels bound by memory or by one function: AdamW, and the vector exp against Eigen's.
#include "core/cpu/simd.h"

#include "tests/bench/bench.h"

namespace copylab::bench {
namespace {

void BM_adamw(benchmark::State& state) {
  const int64_t n = state.range(0);
  auto p = normal("p", n), g = normal("g", n);
  std::vector<float> m(n), v(n, 1.0f);
  double best = 1e300;
  for (auto _ : state) {
    const double t = seconds([&] {
      cpu_backend().f32.adamw({.n = n,
                               .param = p.data(),
                               .grad = g.data(),
                               .m = m.data(),
                               .v = v.data(),
                               .lr = 1e-3f,
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .eps = 1e-8f,
                               .weight_decay = 0.1f,
                               .bias1 = 0.1f,
                               .bias2 = 0.05f,
                               .grad_scale = 1.0f,
                               .zero_grad = true});
    });
    best = std::min(best, t);
    state.SetIterationTime(t);
  }
  state.counters["GB/s"] = 8.0 * sizeof(float) * double(n) / best * 1e-9;  // four arrays read and written
}
BENCHMARK(BM_adamw)->Arg(1 << 16)->Arg(1 << 20)->Arg(1 << 23)->UseManualTime();

void BM_exp(benchmark::State& state) {
  const int64_t n = 4096;
  const auto x = normal("x", n, 5.0);
  std::vector<float> y(n), peer_y(n);
  double best = 1e300, peer_best = 1e300;
  constexpr int kRepeat = 100;
  for (auto _ : state) {
    const double t = thread_seconds([&] {
      for (int r = 0; r < kRepeat; ++r) {
        cpu::simd::map(x.data(), y.data(), n, [](cpu::simd::F32 v) { return cpu::simd::exp(v); });
        benchmark::DoNotOptimize(y.data());
        benchmark::ClobberMemory();
      }
    });
    const double peer = thread_seconds([&] {
      for (int r = 0; r < kRepeat; ++r) {
        Eigen::Map<Eigen::ArrayXf>(peer_y.data(), n) = Eigen::Map<const Eigen::ArrayXf>(x.data(), n).exp();
        benchmark::DoNotOptimize(peer_y.data());
        benchmark::ClobberMemory();
      }
    });
    best = std::min(best, t);
    peer_best = std::min(peer_best, peer);
    state.SetIterationTime(t);
  }
  state.counters["ns/value"] = best / (kRepeat * n) * 1e9;
  state.counters["ratio"] = peer_best / best;
}
BENCHMARK(BM_exp)->UseManualTime();

}  // namespace
}  // namespace copylab::bench
