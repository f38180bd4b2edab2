// linear: x·Wᵀ + b against the plain sum, and its gradients with and without bias.
#include "core/ops/linear.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

const auto kBiased = [](Tape& tape, const std::vector<Tensor>& in) {
  return ops::linear(tape, in[0], in[1], in[2]);
};
const auto kPlain = [](Tape& tape, const std::vector<Tensor>& in) { return ops::linear(tape, in[0], in[1]); };

}  // namespace

TEST_CASE("linear is the plain sum", "[linear]") {
  const int64_t n = 6, width = 5, out = 7;
  const Input x = random_input({2, 3, width}, "x"), w = random_input({out, width}, "w"),
              b = random_input({out}, "b");
  std::vector<double> expected;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < out; ++o) {
      double sum = b.values[o];
      for (int64_t j = 0; j < width; ++j) sum += x.values[i * width + j] * w.values[o * width + j];
      expected.push_back(sum);
    }
  CHECK(difference(run_op<double>(kBiased, {x, w, b}).outputs[0], expected) < 1e-14);
}

TEST_CASE("linear passes the gradient check", "[linear]") {
  check_op(kBiased, {random_input({2, 3, 5}, "x"), random_input({7, 5}, "w"), random_input({7}, "b")});
  check_op(kPlain, {random_input({3, 9}, "x"), random_input({1, 9}, "w")});
  check_op(kPlain, {random_input({1, 1}, "x"), random_input({4, 1}, "w")});
}

TEST_CASE("linear names what is wrong", "[linear][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.scratch(DType::f32, {2, 3}), w = tape.scratch(DType::f32, {4, 3});
  CHECK(error_of([&] {
          ops::linear(tape, x, tape.scratch(DType::f32, {3, 4}));
        }) == "[linear] x (…, in) and weight (out, in) must agree on in: got (2, 3), (3, 4)");
  CHECK(error_of([&] { ops::linear(tape, x, w, tape.scratch(DType::f32, {3})); }) ==
        "[linear] bias (4,) expected: got (3,)");
}
