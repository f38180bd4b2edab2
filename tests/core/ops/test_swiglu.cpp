// swiglu: silu(gate) · up, its gradients, and gates at both ends.
#include "core/ops/swiglu.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

const auto kSwiglu = [](Tape& tape, const std::vector<Tensor>& in) {
  return ops::swiglu(tape, in[0], in[1]);
};

}  // namespace

TEST_CASE("swiglu follows its formula and passes the gradient check", "[swiglu]") {
  const Input gate = random_input({3, 37}, "gate", 3.0), up = random_input({3, 37}, "up");
  std::vector<double> expected;
  for (size_t i = 0; i < gate.values.size(); ++i)
    expected.push_back(gate.values[i] / (1 + std::exp(-gate.values[i])) * up.values[i]);
  CHECK(difference(run_op<double>(kSwiglu, {gate, up}).outputs[0], expected) < 1e-14);
  check_op(kSwiglu, {gate, up});
}

TEST_CASE("swiglu of one tensor with itself gets both gradients", "[swiglu]") {
  check_op([](Tape& tape, const std::vector<Tensor>& in) { return ops::swiglu(tape, in[0], in[0]); },
           {random_input({21}, "x")});
}

TEST_CASE("swiglu is exact for gates far from zero", "[swiglu]") {
  for (double sign : {-1.0, 1.0}) {
    const Input gate{{2}, {sign * 40, sign * 1000}}, up{{2}, {3, 3}};
    const OpResult r = run_op<float>(kSwiglu, {gate, up});
    CHECK(r.outputs[0][1] == (sign < 0 ? 0.0 : 3000.0));
    CHECK(r.outputs[0][0] == Approx(sign * 120 / (1 + std::exp(-sign * 40.0))).epsilon(1e-6));
    for (const auto& g : r.gradients)
      for (double v : g) CHECK(std::isfinite(v));
  }
}

TEST_CASE("swiglu has the same bits for any number of threads", "[swiglu][threads]") {
  const std::vector<Input> in = {random_input({40001}, "gate"), random_input({40001}, "up")};
  CHECK(thread_error(kSwiglu, in) == "");
  CHECK(float32_error(kSwiglu, in) == "");
}

TEST_CASE("swiglu names what is wrong", "[swiglu][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  CHECK(error_of([&] {
          ops::swiglu(tape, tape.scratch(DType::f32, {2, 3}), tape.scratch(DType::f32, {3, 2}));
        }) == "[swiglu] equal shapes expected: got (2, 3), (3, 2)");
}
