// reduce: weighted sums and means, their gradients, and sums that float32 alone would lose.
#include "core/ops/reduce.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

const auto kSum = [](Tape& tape, const std::vector<Tensor>& in) { return ops::weighted_sum(tape, in[0]); };
const auto kMean = [](Tape& tape, const std::vector<Tensor>& in) { return ops::mean(tape, in[0]); };

// A sum with constant weights 1, -2, 3, 1, -2, 3, …
Tensor weighted(Tape& tape, const std::vector<Tensor>& in) {
  const int64_t n = in[0].size();
  const double cycle[] = {1, -2, 3};
  Tensor weights = tape.scratch(in[0].dtype(), {n});
  dispatch_float(weights.dtype(), "test", [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < n; ++i) weights.data<T>()[i] = static_cast<T>(cycle[i % 3]);
  });
  return ops::weighted_sum(tape, in[0], weights);
}

}  // namespace

TEST_CASE("weighted_sum and mean pass the gradient check", "[reduce]") {
  const Input x = random_input({3, 7}, "x");
  double sum = 0, by_weight = 0;
  for (size_t i = 0; i < x.values.size(); ++i) {
    sum += x.values[i];
    by_weight += x.values[i] * (i % 3 == 0 ? 1 : i % 3 == 1 ? -2 : 3);
  }
  CHECK(run_op<double>(kSum, {x}).outputs[0][0] == Approx(sum).epsilon(1e-14));
  CHECK(run_op<double>(kMean, {x}).outputs[0][0] == Approx(sum / 21).epsilon(1e-14));
  CHECK(run_op<double>(weighted, {x}).outputs[0][0] == Approx(by_weight).epsilon(1e-14));
  check_op(kSum, {x});
  check_op(kMean, {x});
  check_op(weighted, {x});
}

TEST_CASE("a long float32 sum keeps the precision of double", "[reduce]") {
  // Added one by one in float32, 0.1 a million times gives 100958.
  const int64_t n = 1000000;
  const Input x{{n}, std::vector<double>(n, 0.1)};
  CHECK(run_op<float>(kSum, {x}, {}, false).outputs[0][0] == Approx(n * double(0.1f)).epsilon(1e-7));
}

TEST_CASE("sums have the same bits for any number of threads", "[reduce][threads]") {
  const Input x = random_input({100003}, "x");
  CHECK(thread_error(kSum, {x}) == "");
  CHECK(thread_error(weighted, {x}) == "");
}

TEST_CASE("the sum and the mean of nothing are 0", "[reduce]") {
  const Input nothing{{0}, {}};
  CHECK(run_op<double>(kSum, {nothing}).outputs[0] == std::vector<double>{0});
  CHECK(run_op<double>(kMean, {nothing}).outputs[0] == std::vector<double>{0});
}

TEST_CASE("reductions name what is wrong", "[reduce][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.scratch(DType::f32, {2, 3});
  CHECK(error_of([&] { ops::weighted_sum(tape, x, tape.scratch(DType::f32, {5})); }) ==
        "[weighted_sum] one weight for each element expected: got (2, 3), (5,)");
  float w[6] = {}, dw[6] = {};
  const Tensor learned = Tensor::view(w, DType::f32, {6}, dw);
  CHECK(error_of([&] { ops::weighted_sum(tape, x, learned); }) ==
        "[weighted_sum] weights have no gradient: detach them, or use mul");
}
