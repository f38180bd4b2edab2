// layer_norm: against the formula, by finite differences, and far from zero.
#include "core/ops/layer_norm.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

const auto kFull = [](Tape& tape, const std::vector<Tensor>& in) {
  return ops::layer_norm(tape, in[0], in[1], in[2], 1e-5);
};
const auto kWithoutBias = [](Tape& tape, const std::vector<Tensor>& in) {
  return ops::layer_norm(tape, in[0], in[1], {}, 1e-5);
};
const auto kPlain = [](Tape& tape, const std::vector<Tensor>& in) {
  return ops::layer_norm(tape, in[0], {}, {}, 1e-5);
};

}  // namespace

TEST_CASE("layer_norm follows its formula", "[layer_norm]") {
  for (int64_t dim : {2, 5, 17, 64, 67}) {
    const Input x = random_input({3, dim}, "x", 2.0, 0.5), w = random_input({dim}, "w"),
                b = random_input({dim}, "b");
    std::vector<double> expected;
    for (int64_t i = 0; i < 3; ++i) {
      const double* row = x.values.data() + i * dim;
      double mean = 0, variance = 0;
      for (int64_t j = 0; j < dim; ++j) mean += row[j] / dim;
      for (int64_t j = 0; j < dim; ++j) variance += (row[j] - mean) * (row[j] - mean) / dim;
      for (int64_t j = 0; j < dim; ++j)
        expected.push_back((row[j] - mean) / std::sqrt(variance + 1e-5) * w.values[j] + b.values[j]);
    }
    CHECK(difference(run_op<double>(kFull, {x, w, b}).outputs[0], expected) < 1e-13);
  }
}

TEST_CASE("layer_norm passes the gradient check", "[layer_norm]") {
  const auto inputs = [](Shape shape) {
    const int64_t dim = shape[-1];
    return std::vector<Input>{random_input(shape, "x"), random_input({dim}, "w"), random_input({dim}, "b")};
  };
  check_op(kFull, inputs({2, 3, 7}));
  check_op(kFull, inputs({3, 19}));
  check_op(kWithoutBias, {random_input({3, 5}, "x"), random_input({5}, "w")});
  check_op(kPlain, {random_input({3, 5}, "x")});
}

TEST_CASE("layer_norm over many rows has the same bits for any number of threads", "[layer_norm][threads]") {
  const std::vector<Input> in = {random_input({777, 64}, "x"), random_input({64}, "w"),
                                 random_input({64}, "b")};
  CHECK(thread_error(kFull, in) == "");
  CHECK(float32_error(kFull, in) == "");
}

TEST_CASE("layer_norm keeps its precision far from zero", "[layer_norm]") {
  // A one-pass variance in float32 would lose all of 1² against 4096².
  const Input x = random_input({2, 33}, "x", 1.0, 4096.0);
  std::vector<Input> near = {x};
  for (double& v : near[0].values) v = static_cast<float>(v) - 4096.0;
  CHECK(difference(run_op<float>(kPlain, {x}).outputs[0], run_op<double>(kPlain, near).outputs[0]) < 1e-3);
}

TEST_CASE("layer_norm of equal values is the bias", "[layer_norm]") {
  const OpResult result =
      run_op<double>(kFull, {Input{{1, 3}, {2.5, 2.5, 2.5}}, Input{{3}, {1, 2, 3}}, Input{{3}, {4, 5, 6}}});
  CHECK(result.outputs[0] == std::vector<double>{4, 5, 6});
}

TEST_CASE("layer_norm names what is wrong", "[layer_norm][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.scratch(DType::f32, {2, 3}), w = tape.scratch(DType::f32, {3});
  CHECK(error_of([&] {
          ops::layer_norm(tape, x, w, tape.scratch(DType::f32, {1, 3}));
        }) == "[layer_norm] x (…, D), weight (D,) and bias (D,) must agree on D: got (2, 3), (3,), (1, 3)");
  CHECK(error_of([&] { ops::layer_norm(tape, x, tape.scratch(DType::f32, {2})); }) ==
        "[layer_norm] x (…, D), weight (D,) and bias (D,) must agree on D: got (2, 3), (2,), none");
}
