// rms_norm: against the formula, by finite differences, and at the edges.
#include "core/ops/rms_norm.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

const auto kWeighted = [](Tape& tape, const std::vector<Tensor>& in) {
  return ops::rms_norm(tape, in[0], in[1], 1e-5);
};
const auto kPlain = [](Tape& tape, const std::vector<Tensor>& in) {
  return ops::rms_norm(tape, in[0], {}, 1e-5);
};

}  // namespace

TEST_CASE("rms_norm follows its formula", "[rms_norm]") {
  for (int64_t dim : {1, 5, 17, 64, 67}) {
    const Input x = random_input({3, dim}, "x", 2.0, 0.5), w = random_input({dim}, "w");
    std::vector<double> expected;
    for (int64_t i = 0; i < 3; ++i) {
      double square = 0;
      for (int64_t j = 0; j < dim; ++j) square += x.values[i * dim + j] * x.values[i * dim + j];
      for (int64_t j = 0; j < dim; ++j)
        expected.push_back(x.values[i * dim + j] / std::sqrt(square / dim + 1e-5) * w.values[j]);
    }
    CHECK(difference(run_op<double>(kWeighted, {x, w}).outputs[0], expected) < 1e-14);
  }
}

TEST_CASE("rms_norm passes the gradient check", "[rms_norm]") {
  check_op(kWeighted, {random_input({2, 3, 7}, "x"), random_input({7}, "w")});
  check_op(kWeighted, {random_input({3, 19}, "x"), random_input({19}, "w")});
  check_op(kWeighted, {random_input({4, 1}, "x"), random_input({1}, "w")});
  check_op(kPlain, {random_input({3, 5}, "x")});
}

TEST_CASE("rms_norm over many rows has the same bits for any number of threads", "[rms_norm][threads]") {
  const std::vector<Input> in = {random_input({777, 64}, "x"), random_input({64}, "w")};
  CHECK(thread_error(kWeighted, in) == "");
  CHECK(float32_error(kWeighted, in) == "");
}

TEST_CASE("rms_norm of a row of zeros is zero, with a finite gradient", "[rms_norm]") {
  const OpResult result = run_op<double>(kPlain, {Input{{1, 4}, {0, 0, 0, 0}}});
  CHECK(result.outputs[0] == std::vector<double>{0, 0, 0, 0});
  for (double g : result.gradients[0]) CHECK(std::isfinite(g));
}

TEST_CASE("rms_norm names what is wrong", "[rms_norm][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.scratch(DType::f32, {2, 3});
  CHECK(error_of([&] { ops::rms_norm(tape, x, tape.scratch(DType::f32, {4})); }) ==
        "[rms_norm] x (…, D) and weight (D,) must agree on D: got (2, 3), (4,)");
}
