// gather_rows: chosen rows forward, ordered accumulation backward, and index -1.
#include "core/ops/gather_rows.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

TEST_CASE("gather_rows takes rows, gives zeros for -1, and passes the gradient check", "[gather_rows]") {
  const std::vector<int32_t> index = {4, -1, 0, 4, 2};
  const auto op = [index](Tape& tape, const std::vector<Tensor>& in) {
    return ops::gather_rows(tape, in[0], tape.constant(index, {5}));
  };
  const Input x = random_input({2, 3, 7}, "x");  // six rows
  const OpResult result = run_op<double>(op, {x});
  for (size_t i = 0; i < index.size(); ++i)
    for (int j = 0; j < 7; ++j)
      CHECK(result.outputs[0][i * 7 + j] == (index[i] < 0 ? 0.0 : x.values[index[i] * 7 + j]));
  check_op(op, {x});
}

TEST_CASE("gather_rows is right and the same on many threads", "[gather_rows][threads]") {
  const std::vector<int32_t> index = random_ids(700, "index", -1, 900);
  const auto op = [index](Tape& tape, const std::vector<Tensor>& in) {
    return ops::gather_rows(tape, in[0], tape.constant(index, {700}));
  };
  const Input x = random_input({900, 80}, "x");
  CHECK(thread_error(op, {x}) == "");
  CHECK(float32_error(op, {x}) == "");
}

TEST_CASE("gather_rows names what is wrong", "[gather_rows][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.constant<float>({1, 2, 3, 4}, {2, 2});
  CHECK(error_of([&] {
          ops::gather_rows(tape, x, int_tensor(tape, {0, 2}));
        }) == "[gather_rows] rows 0..1 or -1 expected: got 2 at 1");
  CHECK(error_of([&] { ops::gather_rows(tape, x, int_tensor(tape, {-2})); }) ==
        "[gather_rows] rows 0..1 or -1 expected: got -2 at 0");
  CHECK(error_of([&] { ops::gather_rows(tape, x.reshape({4}), int_tensor(tape, {0})); }) ==
        "[gather_rows] x (…, D) and index (n,) expected: got (4,), (1,)");
}
