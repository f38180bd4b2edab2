// dropout: the mask's rate and reproducibility, and the same mask in the backward pass.
#include "core/ops/dropout.h"

#include "core/ops/elementwise.h"
#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

auto dropout_of(double rate) {
  return [rate](Tape& tape, const std::vector<Tensor>& in) { return ops::dropout(tape, in[0], rate); };
}

std::vector<double> mask(double rate, CheckOptions options, int64_t n = 4096) {
  return run_op<double>(dropout_of(rate), {Input{{n}, std::vector<double>(n, 1.0)}}, options).outputs[0];
}

}  // namespace

TEST_CASE("dropout passes the gradient check, so backward draws the same mask", "[dropout]") {
  check_op(dropout_of(0.4), {random_input({3, 23}, "x")});
}

TEST_CASE("dropout drops at its rate and scales the rest", "[dropout]") {
  for (double rate : {0.1, 0.5, 0.9}) {
    const int64_t n = 100000;
    int64_t dropped = 0, scaled = 0;
    for (double v : mask(rate, {}, n)) {
      dropped += v == 0;
      scaled += std::abs(v * (1 - rate) - 1) < 1e-12;
    }
    CHECK(dropped + scaled == n);
    const double deviation = std::sqrt(rate * (1 - rate) / n);
    CHECK(std::abs(static_cast<double>(dropped) / n - rate) < 5 * deviation);
  }
}

TEST_CASE("dropout masks depend on the seed and on the draw, not on the length", "[dropout]") {
  const std::vector<double> one = mask(0.5, {});
  CHECK(mask(0.5, {}) == one);
  CheckOptions other;
  other.seed = 8;
  CHECK(mask(0.5, other) != one);
  const std::vector<double> head = mask(0.5, {}, 101);
  CHECK(std::equal(head.begin(), head.end(), one.begin()));

  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.constant(std::vector<double>(64, 1.0), {64});
  const auto host = [&](const Tensor& t) { return to_host<double>(cpu_backend(), t); };
  CHECK(host(ops::dropout(tape, x, 0.5)) != host(ops::dropout(tape, x, 0.5)));  // a second draw of one step
}

TEST_CASE("dropout has the same bits for any number of threads", "[dropout][threads]") {
  CHECK(thread_error(dropout_of(0.3), {random_input({50001}, "x")}) == "");
}

TEST_CASE("dropout does nothing in evaluation or at rate 0", "[dropout]") {
  Tape tape(cpu_backend());
  for (bool training : {false, true}) {
    Tape::Options options;
    options.training = training;
    tape.begin(options);
    const Tensor x = tape.scratch(DType::f32, {5});
    CHECK(ops::dropout(tape, x, training ? 0.0 : 0.5).data<float>() == x.data<float>());
  }
}

TEST_CASE("dropout names what is wrong", "[dropout][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.scratch(DType::f32, {5});
  CHECK(error_of([&] { ops::dropout(tape, x, 1.0); }) == "[dropout] a rate in [0, 1) expected: got 1");
  CHECK(error_of([&] { ops::dropout(tape, x, -0.5); }) == "[dropout] a rate in [0, 1) expected: got -0.5");
}
