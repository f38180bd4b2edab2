// scale_by: product with one learned number, whose gradient sums over all elements.
#include "core/ops/scale_by.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

const auto kScaleBy = [](Tape& tape, const std::vector<Tensor>& in) {
  return ops::scale_by(tape, in[0], in[1]);
};

}  // namespace

TEST_CASE("scale_by multiplies and passes the gradient check", "[scale_by]") {
  const Input x = random_input({3, 7}, "x"), s{{1}, {-1.75}};
  std::vector<double> expected;
  for (double v : x.values) expected.push_back(-1.75 * v);
  CHECK(run_op<double>(kScaleBy, {x, s}).outputs[0] == expected);
  check_op(kScaleBy, {x, s});
}

TEST_CASE("scale_by sums its gradient in the same order on any number of threads", "[scale_by][threads]") {
  const std::vector<Input> in = {random_input({50001}, "x"), Input{{1}, {0.3}}};
  CHECK(thread_error(kScaleBy, in) == "");
  CHECK(float32_error(kScaleBy, in) == "");
}

TEST_CASE("scale_by names what is wrong", "[scale_by][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.scratch(DType::f32, {2, 3});
  CHECK(error_of([&] { ops::scale_by(tape, x, x); }) ==
        "[scale_by] one number as the scale expected: got (2, 3)");
}
