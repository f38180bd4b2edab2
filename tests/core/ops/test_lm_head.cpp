// lm_head: gradients of the log-sum-exp and of the chosen logits, and the errors of the op.
#include "core/ops/lm_head.h"

#include "core/ops/elementwise.h"
#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

// Logits as they were before the shift: what finite differences can follow. Column -1 stays 0.
Tensor unshifted(Tape& tape, const Tensor& logits, const Tensor& shift, const std::vector<int32_t>& columns) {
  Tensor y = tape.result(logits.dtype(), logits.shape(), {logits});
  dispatch_float(y.dtype(), "unshifted", [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < y.size(); ++i)
      y.data<T>()[i] = logits.data<T>()[i] + (columns[i] < 0 ? T(0) : shift.data<T>()[i / y.dim(1)]);
    tape.record("unshifted", {y}, {logits}, [=] {
      for (int64_t i = 0; i < y.size(); ++i) logits.grad<T>()[i] += y.grad<T>()[i];
    });
  });
  return y;
}

auto head(std::vector<int32_t> columns, int64_t rows, int64_t vocab, std::vector<uint8_t> excluded = {}) {
  return [=](Tape& tape, const std::vector<Tensor>& in) {
    const int64_t k = static_cast<int64_t>(columns.size()) / rows;
    const ops::LmHeadResult r = ops::lm_head(tape, in[0], in[1], tape.constant(columns, {rows, k}), vocab,
                                             excluded.empty() ? Tensor{} : tape.constant(excluded, {vocab}));
    return std::vector<Tensor>{ops::add(tape, r.lse, r.shift), unshifted(tape, r.logits, r.shift, columns)};
  };
}

}  // namespace

TEST_CASE("lm_head passes the gradient check", "[lm_head]") {
  // Four rows over seven columns, of which the last lies outside the vocabulary (a gate), with a repeated and
  // a missing column.
  const std::vector<int32_t> columns = {0, 6, 3, 3, -1, 5, 6, 2};
  const std::vector<Input> in = {random_input({4, 5}, "h"), random_input({7, 5}, "w")};
  check_op(head(columns, 4, 6), in);
  check_op(head(columns, 4, 6, {0, 1, 0, 0, 1, 0}), in);
}

TEST_CASE("lm_head passes the gradient check over one column and over several tiles", "[lm_head]") {
  check_op(head({0, 0}, 2, 1), {random_input({2, 3}, "h"), random_input({1, 3}, "w")});
  const std::vector<Input> wide = {random_input({3, 2}, "h"), random_input({123, 2}, "w")};
  check_op(head({5, 121, 77}, 3, 123), wide);
}

TEST_CASE("lm_head gives the log-sum-exp, the logits and the argmax of the plain product", "[lm_head]") {
  const int64_t rows = 3, dim = 4, vocab = 9;
  const Input h = random_input({rows, dim}, "h"), w = random_input({vocab, dim}, "w");
  const std::vector<int32_t> columns = {8, 0, 4};
  const OpResult result = run_op<double>(head(columns, rows, vocab), {h, w});
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0, chosen = 0;
    for (int64_t v = 0; v < vocab; ++v) {
      double logit = 0;
      for (int64_t j = 0; j < dim; ++j) logit += h.values[i * dim + j] * w.values[v * dim + j];
      sum += std::exp(logit);
      if (v == columns[i]) chosen = logit;
    }
    CHECK(result.outputs[0][i] == Approx(std::log(sum)).epsilon(1e-13));
    CHECK(result.outputs[1][i] == Approx(chosen).epsilon(1e-13));
  }
}

TEST_CASE("lm_head names what is wrong", "[lm_head][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor h = tape.scratch(DType::f32, {2, 3}), w = tape.scratch(DType::f32, {5, 3});
  const Tensor columns = tape.constant(std::vector<int32_t>{0, 1}, {2, 1});
  CHECK(error_of([&] {
          ops::lm_head(tape, h, tape.scratch(DType::f32, {5, 4}), columns, 5);
        }) == "[lm_head] h (N, D) and w (R, D) must agree on D: got (2, 3), (5, 4)");
  CHECK(error_of([&] {
          ops::lm_head(tape, h, w, columns.reshape({1, 2}), 5);
        }) == "[lm_head] columns (2, K) int32 expected: got (1, 2) int32");
  CHECK(error_of([&] { ops::lm_head(tape, h, w, columns, 6); }) ==
        "[lm_head] vocab in 0..5 (rows of w) expected: got 6");
}
