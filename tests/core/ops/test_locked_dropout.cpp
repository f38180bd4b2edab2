// locked_dropout: one mask for all positions of a sequence, shared by calls with one stream.
#include "core/ops/locked_dropout.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

auto locked(double rate) {
  return [rate](Tape& tape, const std::vector<Tensor>& in) {
    return ops::locked_dropout(tape, in[0], rate, tape.random("dropout"));
  };
}

}  // namespace

TEST_CASE("locked_dropout passes the gradient check", "[dropout]") {
  check_op(locked(0.4), {random_input({3, 5, 7}, "x")});
  CHECK(thread_error(locked(0.4), {random_input({20, 64, 33}, "x")}) == "");
}

TEST_CASE("locked_dropout has one mask for all positions of a sequence", "[dropout]") {
  constexpr int64_t B = 40, T = 6, D = 50;
  const Input ones{{B, T, D}, std::vector<double>(B * T * D, 1.0)};
  const std::vector<double> y = run_op<double>(locked(0.3), {ones}).outputs[0];
  int64_t dropped = 0;
  std::vector<double> masks;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t d = 0; d < D; ++d) {
      const double first = y[b * T * D + d];
      CHECK((first == 0 || std::abs(first * 0.7 - 1) < 1e-12));
      for (int64_t t = 1; t < T; ++t) CHECK(y[(b * T + t) * D + d] == first);
      dropped += first == 0;
      masks.push_back(first);
    }
  }
  CHECK(std::abs(double(dropped) / (B * D) - 0.3) < 5 * std::sqrt(0.21 / (B * D)));
  CHECK(std::vector<double>(masks.begin(), masks.begin() + D) !=
        std::vector<double>(masks.begin() + D, masks.begin() + 2 * D));

  // The same stream masks a memory of another length alike.
  const Op twice = [](Tape& tape, const std::vector<Tensor>& in) {
    const Random mask = tape.random("dropout");
    return std::vector<Tensor>{ops::locked_dropout(tape, in[0], 0.3, mask),
                               ops::locked_dropout(tape, in[1], 0.3, mask)};
  };
  const Input fewer{{B, 1, D}, std::vector<double>(B * D, 1.0)};
  const OpResult both = run_op<double>(twice, {ones, fewer});
  CHECK(both.outputs[1] == masks);
  CHECK(both.outputs[0] == y);
}

TEST_CASE("locked_dropout does nothing in evaluation or at rate 0, and names what is wrong", "[dropout]") {
  Tape tape(cpu_backend());
  for (bool training : {false, true}) {
    Tape::Options options;
    options.training = training;
    tape.begin(options);
    const Tensor x = tape.scratch(DType::f32, {2, 3, 4});
    const Random mask = tape.random("dropout");
    CHECK(ops::locked_dropout(tape, x, training ? 0.0 : 0.5, mask).data<float>() == x.data<float>());
    CHECK(error_of([&] { ops::locked_dropout(tape, x, 1.0, mask); }) ==
          "[locked_dropout] a rate in [0, 1) expected: got 1");
    CHECK(error_of([&] {
            ops::locked_dropout(tape, x.reshape({6, 4}), 0.1, mask);
          }) == "[locked_dropout] x (B, T, D) expected: got (6, 4)");
  }
}
