// scatter_rows: the adjoint of gather_rows, with repeated and skipped indices.
#include "core/ops/scatter_rows.h"

#include "core/ops/gather_rows.h"
#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

TEST_CASE("scatter_rows adds rows in place and passes the gradient check", "[scatter_rows]") {
  const std::vector<int32_t> index = {5, 0, -1, 5};
  const auto op = [index](Tape& tape, const std::vector<Tensor>& in) {
    return ops::scatter_rows(tape, in[0], tape.constant(index, {4}), 6);
  };
  const Input x = random_input({4, 3}, "x");
  std::vector<double> expected(6 * 3, 0.0);
  for (size_t i = 0; i < index.size(); ++i)
    for (int j = 0; index[i] >= 0 && j < 3; ++j) expected[index[i] * 3 + j] += x.values[i * 3 + j];
  CHECK(run_op<double>(op, {x}).outputs[0] == expected);
  check_op(op, {x});
}

TEST_CASE("scatter_rows undoes gather_rows of distinct rows", "[scatter_rows]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.constant<double>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor index = int_tensor(tape, {2, 0});
  const Tensor y = ops::scatter_rows(tape, ops::gather_rows(tape, x, index), index, 3);
  CHECK(to_host<double>(cpu_backend(), y) == std::vector<double>{1, 2, 0, 0, 5, 6});
}

TEST_CASE("scatter_rows names what is wrong", "[scatter_rows][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.constant<float>({1, 2, 3, 4}, {2, 2});
  CHECK(error_of([&] { ops::scatter_rows(tape, x, int_tensor(tape, {0}), 3); }) ==
        "[scatter_rows] x (n, D) and index (n,) expected: got (2, 2), (1,)");
  CHECK(error_of([&] {
          ops::scatter_rows(tape, x, int_tensor(tape, {0, 3}), 3);
        }) == "[scatter_rows] rows 0..2 or -1 expected: got 3 at 1");
}
