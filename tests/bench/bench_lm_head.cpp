// The output head: forward, and forward with backward, as a fraction of the rate of large square products.
#include <cmath>

#include "core/cpu/gemm.h"
#include "tests/bench/bench.h"

namespace copylab::bench {
namespace {

struct Head {
  int64_t n, vocab, dim;
  std::vector<float> h, w, dh, dw, lse, logits, shift, dlse, dlogits;
  std::vector<int32_t> columns, argmax;

  Head(int64_t n_, int64_t vocab_, int64_t dim_)
      : n(n_),
        vocab(vocab_),
        dim(dim_),
        h(normal("h", n_ * dim_)),
        w(normal("w", vocab_ * dim_, 1 / std::sqrt(double(dim_)))),
        dh(n_ * dim_),
        dw(vocab_ * dim_),
        lse(n_),
        logits(n_),
        shift(n_),
        dlse(n_, 1.0f / float(n_)),
        dlogits(n_, -1.0f / float(n_)),
        columns(n_),
        argmax(n_) {
    const Random random(1, "columns");
    for (int64_t i = 0; i < n; ++i) columns[i] = static_cast<int32_t>(random.below(i, vocab));
  }
  LmHeadArgs<float> args() {
    return {.rows = n,
            .dim = dim,
            .vocab = vocab,
            .weight_rows = vocab,
            .columns = 1,
            .h = h.data(),
            .w = w.data(),
            .column_ids = columns.data(),
            .excluded = nullptr,
            .lse = lse.data(),
            .logits = logits.data(),
            .shift = shift.data(),
            .argmax = argmax.data()};
  }
  LmHeadGrads<float> grads() {
    return {.dlse = dlse.data(), .dlogits = dlogits.data(), .dh = dh.data(), .dw = dw.data()};
  }
};

// The same head by plain Eigen: one product per tile of 512 columns of the vocabulary, array expressions for
// the exponentials. What one would write first.
struct NaiveHead {
  static constexpr int64_t kTile = 512;

  static void forward(Head& x) {
    const ConstMatrix<float> h(x.h.data(), x.n, x.dim);
    Eigen::ArrayXf max = Eigen::ArrayXf::Constant(x.n, -INFINITY), sum = Eigen::ArrayXf::Zero(x.n);
    for (int64_t v = 0; v < x.vocab; v += kTile) {
      const int64_t width = std::min(kTile, x.vocab - v);
      const RowMajor<float> z = h * ConstMatrix<float>(x.w.data() + v * x.dim, width, x.dim).transpose();
      const Eigen::ArrayXf old = max;
      max = max.max(z.rowwise().maxCoeff().array());
      sum = sum * (old - max).exp() + (z.array().colwise() - max).exp().rowwise().sum();
    }
    for (int64_t i = 0; i < x.n; ++i) {
      x.shift[i] = max[i];
      x.lse[i] = std::log(sum[i]);
      x.logits[i] = h.row(i).dot(ConstMatrix<float>(x.w.data(), x.vocab, x.dim).row(x.columns[i])) - max[i];
    }
  }
  static void backward(Head& x) {
    const ConstMatrix<float> h(x.h.data(), x.n, x.dim);
    const Eigen::Map<const Eigen::ArrayXf> dlse(x.dlse.data(), x.n);
    const Eigen::ArrayXf lse = Eigen::Map<const Eigen::ArrayXf>(x.lse.data(), x.n) +
                               Eigen::Map<const Eigen::ArrayXf>(x.shift.data(), x.n);
    Matrix<float> dh(x.dh.data(), x.n, x.dim);
    for (int64_t v = 0; v < x.vocab; v += kTile) {
      const int64_t width = std::min(kTile, x.vocab - v);
      const ConstMatrix<float> w(x.w.data() + v * x.dim, width, x.dim);
      RowMajor<float> p = h * w.transpose();
      p = (p.array().colwise() - lse).exp().colwise() * dlse;
      dh.noalias() += p * w;
      Matrix<float>(x.dw.data() + v * x.dim, width, x.dim).noalias() += p.transpose() * h;
    }
    for (int64_t i = 0; i < x.n; ++i) {
      const float g = x.dlogits[i];
      dh.row(i) += g * ConstMatrix<float>(x.w.data(), x.vocab, x.dim).row(x.columns[i]);
      Matrix<float>(x.dw.data(), x.vocab, x.dim).row(x.columns[i]) += g * h.row(i);
    }
  }
};

// Times the head and, by turns, a large square product on the same threads (our own, which BM_square compares
// with Eigen's): `of_square` is the rate of the head over the rate of the product.
template <class F>
void measure(benchmark::State& state, double flop, bool one_thread, F&& f) {
  constexpr int64_t kSide = 1024;
  const auto a = normal("a", kSide * kSide), b = normal("b", kSide * kSide);
  std::vector<float> c(kSide * kSide);
  const auto product = [&] {
    cpu::gemm::multiply<float>(kSide, kSide, kSide, {a.data(), kSide, 1}, {b.data(), kSide, 1}, c.data(),
                               kSide, false);
  };
  double best = 1e300, square = 1e300;
  for (auto _ : state) {
    const double t = one_thread ? thread_seconds(f) : seconds(f);
    best = std::min(best, t);
    square = std::min(square, one_thread ? thread_seconds(product) : seconds(product));
    state.SetIterationTime(t);
  }
  const double square_rate = 2.0 * kSide * kSide * kSide / square;
  state.counters["GFLOP/s"] = flop / best * 1e-9;
  state.counters["square_GFLOP/s"] = square_rate * 1e-9;
  state.counters["of_square"] = flop / best / square_rate;
}

template <bool backward, bool naive>
void BM_lm_head(benchmark::State& state) {
  const Threads threads(static_cast<int>(state.range(3)));
  Head x(state.range(0), state.range(1), state.range(2));
  const auto& k = cpu_backend().f32;
  const double product = 2.0 * double(x.n) * double(x.vocab) * double(x.dim);  // backward does three of them
  measure(state, backward ? 4 * product : product, state.range(3) == 1, [&] {
    if (naive) {
      NaiveHead::forward(x);
      if (backward) NaiveHead::backward(x);
    } else {
      k.lm_head(x.args());
      if (backward) k.lm_head_backward(x.args(), x.grads());
    }
  });
}
// N, V, D, threads (0 = all). The naive head runs on one thread, as Eigen is built for here.
template <bool naive>
void head_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"n", "vocab", "dim", "threads"})->UseManualTime();
  for (const int threads : {1, 0}) {
    if (naive && threads != 1) continue;
    b->Args({512, 16384, 64, threads})->Args({512, 131072, 64, threads});
    b->Args({1024, 16384, 128, threads})->Args({512, 4096, 576, threads});
  }
}
BENCHMARK(BM_lm_head<false, false>)->Name("BM_lm_head_forward")->Apply(head_shapes<false>);
BENCHMARK(BM_lm_head<true, false>)->Name("BM_lm_head_forward_backward")->Apply(head_shapes<false>);
BENCHMARK(BM_lm_head<false, true>)->Name("BM_naive_head_forward")->Apply(head_shapes<true>);
BENCHMARK(BM_lm_head<true, true>)->Name("BM_naive_head_forward_backward")->Apply(head_shapes<true>);

}  // namespace
}  // namespace copylab::bench
