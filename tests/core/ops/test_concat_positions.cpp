// concat_positions: values by hand, gradients by differences.
#include "core/ops/concat_positions.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

const Op joined = [](Tape& tape, const std::vector<Tensor>& x) {
  return ops::concat_positions(tape, x[0], x[1]);
};

}  // namespace

TEST_CASE("concat_positions puts the positions of one array before those of the other", "[concat]") {
  const Input a{{2, 1, 2}, {1, 2, 3, 4}}, b{{2, 2, 2}, {5, 6, 7, 8, 9, 10, 11, 12}};
  CHECK(run_op<double>(joined, {a, b}).outputs[0] ==
        std::vector<double>{1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12});
  check_op(joined, {random_input({3, 4, 5}, "a"), random_input({3, 2, 5}, "b")});
}

TEST_CASE("concat_positions refuses shapes that do not fit", "[concat]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const auto f = [&](Shape s) { return tape.scratch(DType::f32, s); };
  CHECK(error_of([&] {
          ops::concat_positions(tape, f({2, 3, 4}), f({2, 3, 5}));
        }) == "[concat_positions] a (B, M, D) and b (B, T, D) expected: got (2, 3, 4), (2, 3, 5)");
}
