// The gradient-check harness itself: it passes a right gradient and catches each kind of wrong one.
#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

// y = x², with a backward pass to be broken on purpose.
template <class F>
auto square_with(F backward) {
  return [backward](Tape& tape, const std::vector<Tensor>& in) {
    const Tensor x = in[0];
    Tensor y = tape.result(x.dtype(), x.shape(), {x});
    dispatch_float(x.dtype(), "square", [&](auto tag) {
      using T = decltype(tag);
      for (int64_t i = 0; i < x.size(); ++i) y.data<T>()[i] = x.data<T>()[i] * x.data<T>()[i];
      tape.record("square", {y}, {x}, [=] {
        for (int64_t i = 0; i < x.size(); ++i) backward(x.data<T>()[i], y.grad<T>()[i], x.grad<T>()[i], i);
      });
    });
    return y;
  };
}

const std::vector<Input> kInputs = {random_input({3, 5}, "square")};

}  // namespace

TEST_CASE("a right gradient passes", "[gradcheck]") {
  check_op(square_with([](auto x, auto dy, auto& dx, int64_t) { dx += 2 * x * dy; }), kInputs);
}

TEST_CASE("wrong gradients are caught", "[gradcheck]") {
  const auto error = [](auto backward) { return gradient_error(square_with(backward), kInputs); };
  CHECK(error([](auto x, auto dy, auto& dx, int64_t) { dx += 2.0001 * x * dy; }) != "");
  CHECK(error([](auto x, auto dy, auto& dx, int64_t) { dx = 2 * x * dy; }) != "");  // overwrites
  CHECK(error([](auto x, auto, auto& dx, int64_t) { dx += 2 * x; }) != "");         // no upstream weight
  CHECK(error([](auto x, auto dy, auto& dx, int64_t i) { dx += i == 14 ? 0 : 2 * x * dy; }) != "");
}

TEST_CASE("a write behind a gradient is caught", "[gradcheck]") {
  const auto overrun = [](auto x, auto dy, auto& dx, int64_t i) {
    dx += 2 * x * dy;
    if (i == 14) *(&dx + 1) += 1;
  };
  CHECK(gradient_error(square_with(overrun), kInputs) == "written behind gradient of input 0");
}

TEST_CASE("a write behind an output is caught", "[gradcheck]") {
  const auto op = [](Tape& tape, const std::vector<Tensor>& x) {
    Tensor y = tape.result(x[0].dtype(), x[0].shape(), {x[0]});
    std::memset(y.data<double>(), 0, sizeof(double) * (y.size() + 1));
    tape.record("zero", {y}, {x[0]}, [] {});
    return y;
  };
  CHECK(gradient_error(op, kInputs) == "written behind output 0");
}

TEST_CASE("bits that depend on the thread count are caught", "[gradcheck]") {
  CHECK(same_bits_for_threads([] { return std::vector<int>{1}; }));
  CHECK_FALSE(same_bits_for_threads([] { return std::vector<int>{omp_get_max_threads()}; }));
}
