// embedding: rows by id, gradients of repeated ids in order, and ids out of range.
#include "core/ops/embedding.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

TEST_CASE("embedding copies rows and passes the gradient check", "[embedding]") {
  const std::vector<int32_t> ids = {3, 0, 3, 6, 1, 3};
  const auto op = [ids](Tape& tape, const std::vector<Tensor>& in) {
    return ops::embedding(tape, in[0], tape.constant(ids, {2, 3}));
  };
  const Input table = random_input({7, 5}, "table");
  const OpResult result = run_op<double>(op, {table});
  for (size_t i = 0; i < ids.size(); ++i)
    for (int j = 0; j < 5; ++j) CHECK(result.outputs[0][i * 5 + j] == table.values[ids[i] * 5 + j]);
  check_op(op, {table});
}

TEST_CASE("embedding adds the rows of one id in order of position", "[embedding]") {
  // In float32, 1 + 1e8 - 1e8 is 0 and 1e8 - 1e8 + 1 is 1: any other order shows.
  const std::vector<int32_t> ids = {2, 2, 2};
  const std::vector<float> dy = {1e8f, -1e8f, 1.0f};
  Guarded<float> dtable(4, 0.0f);
  cpu_backend().f32.embedding_backward(ids.data(), dy.data(), dtable.data(), 3, 1, 4);
  CHECK(dtable.values() == std::vector<float>{0, 0, 1, 0});
  CHECK(dtable.intact());
}

TEST_CASE("embedding gradients have the same bits for any number of threads", "[embedding][threads]") {
  const int64_t n = 1000, dim = 96, vocab = 50;
  const std::vector<int32_t> ids = random_ids(n, "ids", 0, vocab);
  const Input dy = random_input({n, dim}, "dy");
  const std::vector<float> dy32(dy.values.begin(), dy.values.end());
  std::vector<float> expected(vocab * dim, 0.5f);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < dim; ++j) expected[ids[i] * dim + j] += dy32[i * dim + j];
  const auto run = [&] {
    Guarded<float> dtable(vocab * dim, 0.5f);
    cpu_backend().f32.embedding_backward(ids.data(), dy32.data(), dtable.data(), n, dim, vocab);
    CHECK(dtable.intact());
    return dtable.values();
  };
  CHECK(same_bits_for_threads(run));
  CHECK(run() == expected);
}

TEST_CASE("embedding of no ids is empty", "[embedding]") {
  Tape tape(cpu_backend());
  tape.begin({});
  std::vector<float> table(6);
  const Tensor t = Tensor::view(table.data(), DType::f32, {3, 2});
  CHECK(ops::embedding(tape, t, tape.scratch(DType::i32, {0})).shape() == Shape{0, 2});
}

TEST_CASE("embedding names what is wrong", "[embedding][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  std::vector<float> values(6);
  const Tensor table = Tensor::view(values.data(), DType::f32, {3, 2});
  CHECK(error_of([&] {
          ops::embedding(tape, table, int_tensor(tape, {0, 2, 3}));
        }) == "[embedding] rows 0..2 expected: got 3 at 2");
  CHECK(error_of([&] { ops::embedding(tape, table, int_tensor(tape, {-1})); }) ==
        "[embedding] rows 0..2 expected: got -1 at 0");
  CHECK(error_of([&] { ops::embedding(tape, table.reshape({6}), int_tensor(tape, {0})); }) ==
        "[embedding] table (V, D) and ids of at most 3 dimensions expected: got (6,), (1,)");
  CHECK(error_of([&] { ops::embedding(tape, table, tape.scratch(DType::f32, {1})); }) ==
        "[tensor] int32 expected: got float32 (1,)");
}
