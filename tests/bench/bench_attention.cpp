// Benchmarks of attention, pointer, copy mixture and LSTM, forward and backward, at the shapes of
// experiments.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/backend.h"
#include "core/random.h"

using namespace copylab;

namespace {

std::vector<float> normal(int64_t n, const char* purpose) {
  const Random random(1, purpose);
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

// Only products below the diagonal and inside the window are counted: what has to be done.
void count_flops(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

double visible_pairs(int64_t length, int64_t window) {
  double pairs = 0;
  for (int64_t t = 0; t < length; ++t)
    pairs += static_cast<double>(window > 0 ? std::min(window, t + 1) : t + 1);
  return pairs;
}

void attention(benchmark::State& state) {
  const int64_t B = state.range(0), T = state.range(1), H = state.range(2), G = state.range(3),
                d = state.range(4), window = state.range(5);
  const bool backward = state.range(6) != 0;
  const auto q = normal(B * T * H * d, "q"), k = normal(B * T * G * d, "k"), v = normal(B * T * G * d, "v");
  std::vector<float> out(q.size()), lse(B * H * T), dq(q.size()), dk(k.size()), dv(k.size());
  const AttentionArgs<float> args{.batch = B,
                                  .length = T,
                                  .heads = H,
                                  .kv_heads = G,
                                  .head_dim = d,
                                  .window = window,
                                  .scale = 1 / std::sqrt(static_cast<float>(d)),
                                  .q = q.data(),
                                  .k = k.data(),
                                  .v = v.data(),
                                  .bias = nullptr,
                                  .allowed = nullptr,
                                  .marked = nullptr,
                                  .segment = nullptr,
                                  .out = out.data(),
                                  .lse = lse.data(),
                                  .probs = nullptr};
  const auto& kernels = cpu_backend().f32;
  kernels.attention(args);
  for (auto _ : state) {
    if (backward)
      kernels.attention_backward(args, {q.data(), dq.data(), dk.data(), dv.data()});
    else
      kernels.attention(args);
    benchmark::ClobberMemory();
  }
  count_flops(state, static_cast<double>(B * H * d) * visible_pairs(T, window) * 2 * (backward ? 5 : 2));
}
void attention_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"B", "T", "H", "G", "d", "window", "backward"});
  for (int64_t backward : {0, 1}) {
    b->Args({8, 64, 4, 4, 16, 0, backward});
    b->Args({32, 64, 4, 4, 16, 0, backward});
    b->Args({16, 128, 4, 4, 16, 0, backward});
    b->Args({16, 128, 4, 4, 16, 32, backward});
    b->Args({8, 256, 4, 2, 32, 0, backward});
    b->Args({8, 512, 4, 4, 64, 0, backward});
    b->Args({2, 2048, 4, 4, 32, 64, backward});
  }
}
BENCHMARK(attention)->Apply(attention_shapes)->UseRealTime();

void pointer(benchmark::State& state) {
  const int64_t B = state.range(0), T = state.range(1), d = state.range(2);
  const bool backward = state.range(3) != 0;
  const auto q = normal(B * T * d, "q"), k = normal(B * T * d, "k"), sink = normal(B * T, "sink");
  std::vector<int32_t> tokens(B * T), targets(B * T);
  const Random random(1, "tokens");
  for (int64_t i = 0; i < B * T; ++i) {
    tokens[i] = static_cast<int32_t>(random.below(2 * i, 50));
    targets[i] = static_cast<int32_t>(random.below(2 * i + 1, 50));
  }
  std::vector<float> log_copy(B * T), log_sink(B * T), lse(B * T), dq(q.size()), dk(k.size()), dsink(B * T);
  const PointerArgs<float> args{.batch = B,
                                .length = T,
                                .dim = d,
                                .memory = 0,
                                .window = 0,
                                .shift = 0,
                                .copy_self = false,
                                .scale = 1 / std::sqrt(static_cast<float>(d)),
                                .q = q.data(),
                                .k = k.data(),
                                .sink = sink.data(),
                                .tokens = tokens.data(),
                                .targets = targets.data(),
                                .segment = nullptr,
                                .log_copy = log_copy.data(),
                                .log_sink = log_sink.data(),
                                .lse = lse.data(),
                                .weights = nullptr};
  const auto& kernels = cpu_backend().f32;
  kernels.pointer(args);
  for (auto _ : state) {
    if (backward)
      kernels.pointer_backward(args, {sink.data(), sink.data(), dq.data(), dk.data(), dsink.data()});
    else
      kernels.pointer(args);
    benchmark::ClobberMemory();
  }
  count_flops(state, static_cast<double>(B * d) * visible_pairs(T, 0) * 2 * (backward ? 3 : 1));
}
void pointer_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"B", "T", "d", "backward"});
  for (int64_t backward : {0, 1}) {
    b->Args({8, 64, 64, backward});
    b->Args({32, 64, 64, backward});
    b->Args({16, 128, 64, backward});
    b->Args({8, 512, 128, backward});
    b->Args({1, 4096, 64, backward});
  }
}
BENCHMARK(pointer)->Apply(pointer_shapes)->UseRealTime();

void copy_mixture(benchmark::State& state) {
  const int64_t n = state.range(0);
  const auto gate = normal(n, "gate");
  std::vector<float> lm(n), nll(n), d(n);
  for (int64_t i = 0; i < n; ++i) lm[i] = -std::abs(gate[i]);
  const CopyMixtureArgs<float> args{.n = n,
                                    .gate_floor = 0,
                                    .drop_sink = false,
                                    .lm = lm.data(),
                                    .gate_logit = gate.data(),
                                    .log_copy = lm.data(),
                                    .log_sink = lm.data(),
                                    .nll = nll.data()};
  const auto& kernels = cpu_backend().f32;
  for (auto _ : state) {
    if (state.range(1) != 0)
      kernels.copy_mixture_backward(args, {lm.data(), d.data(), d.data(), d.data(), d.data()});
    else
      kernels.copy_mixture(args);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(copy_mixture)->ArgNames({"n", "backward"})->Args({2048, 0})->Args({2048, 1})->UseRealTime();

void lstm(benchmark::State& state) {
  const int64_t B = state.range(0), T = state.range(1), H = state.range(2);
  const bool backward = state.range(3) != 0;
  const auto x = normal(B * T * 4 * H, "x"), w = normal(4 * H * H, "w"), first = normal(B * H, "first");
  std::vector<float> h(B * T * H), c(h.size()), gates(x.size()), last(B * H), dx(x.size()), dw(w.size()),
      dh(h.size(), 1.0f);
  const LstmArgs<float> args{.batch = B,
                             .length = T,
                             .hidden = H,
                             .zoneout = {},
                             .x_gates = x.data(),
                             .w_hh = w.data(),
                             .bias = nullptr,
                             .h0 = first.data(),
                             .c0 = first.data(),
                             .h = h.data(),
                             .c = c.data(),
                             .gates = gates.data(),
                             .h_last = last.data(),
                             .c_last = last.data()};
  LstmGrads<float> grads{};
  grads.dh = dh.data();
  grads.dx_gates = dx.data();
  grads.dw_hh = dw.data();
  const auto& kernels = cpu_backend().f32;
  kernels.lstm(args);
  for (auto _ : state) {
    if (backward)
      kernels.lstm_backward(args, grads);
    else
      kernels.lstm(args);
    benchmark::ClobberMemory();
  }
  count_flops(state, static_cast<double>(B * T * H * H) * 8 * (backward ? 2 : 1));
}
void lstm_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"B", "T", "H", "backward"});
  for (int64_t backward : {0, 1}) {
    b->Args({16, 64, 128, backward});
    b->Args({32, 100, 256, backward});
  }
}
BENCHMARK(lstm)->Apply(lstm_shapes)->UseRealTime();

}  // namespace
