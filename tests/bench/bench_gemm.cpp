// Matrix products: square ones, and those of a small model's layers, against Eigen on one thread.
#include "core/cpu/gemm.h"

#include "tests/bench/bench.h"

namespace copylab::bench {
namespace {

void BM_square(benchmark::State& state) {
  const int64_t n = state.range(0);
  const auto a = normal("a", n * n), b = normal("b", n * n);
  std::vector<float> c(n * n), c_peer(n * n);
  compare(
      state, 2.0 * n * n * n,
      [&] {
        cpu::gemm::multiply<float>(n, n, n, {a.data(), n, 1}, {b.data(), n, 1}, c.data(), n, false);
      },
      [&] {
        Matrix<float>(c_peer.data(), n, n).noalias() =
            ConstMatrix<float>(a.data(), n, n) * ConstMatrix<float>(b.data(), n, n);
      });
}
BENCHMARK(BM_square)->Arg(512)->Arg(1024)->Arg(2048)->UseManualTime();

// The three products of a linear layer: rows x in -> out.
enum class Product { forward, dx, dw };

template <Product product>
void BM_linear(benchmark::State& state) {
  const int64_t n = state.range(0), in = state.range(1), out = state.range(2);
  const auto& k = cpu_backend().f32;
  const auto x = normal("x", n * in), w = normal("w", out * in), dy = normal("dy", n * out);
  std::vector<float> result(std::max({n * in, n * out, in * out})), peer_result(result.size());
  const ConstMatrix<float> mx(x.data(), n, in), mw(w.data(), out, in), mdy(dy.data(), n, out);
  compare(
      state, 2.0 * n * in * out,
      [&] {
        if (product == Product::forward) k.linear(x.data(), w.data(), nullptr, result.data(), n, in, out);
        if (product == Product::dx)
          k.linear_backward(x.data(), w.data(), dy.data(), result.data(), nullptr, nullptr, n, in, out);
        if (product == Product::dw)
          k.linear_backward(x.data(), w.data(), dy.data(), nullptr, result.data(), nullptr, n, in, out);
      },
      [&] {
        if (product == Product::forward)
          Matrix<float>(peer_result.data(), n, out).noalias() = mx * mw.transpose();
        if (product == Product::dx) Matrix<float>(peer_result.data(), n, in).noalias() += mdy * mw;
        if (product == Product::dw)
          Matrix<float>(peer_result.data(), out, in).noalias() += mdy.transpose() * mx;
      });
}
void model_shapes(benchmark::internal::Benchmark* b) {
  b->Args({2048, 64, 64})->Args({2048, 64, 192})->Args({2048, 128, 352})->Args({2048, 352, 128});
  b->Args({512, 64, 64})->Args({512, 64, 192})->Args({512, 192, 64})->Args({2048, 576, 576});
  b->UseManualTime();
}
BENCHMARK(BM_linear<Product::forward>)->Name("BM_linear_forward")->Apply(model_shapes);
BENCHMARK(BM_linear<Product::dx>)->Name("BM_linear_dx")->Apply(model_shapes);
BENCHMARK(BM_linear<Product::dw>)->Name("BM_linear_dw")->Apply(model_shapes);

}  // namespace
}  // namespace copylab::bench
