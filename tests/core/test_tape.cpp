// Tape: what backward reaches, what it leaves alone, and how it reports NaN.
#include "core/tape.h"

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "tests/core/gradcheck.h"

using namespace copylab;
using copylab::test::error_of;

namespace {

// A parameter of n numbers with its gradient.
struct Parameter {
  std::vector<double> data, grad;
  Tensor tensor;
  explicit Parameter(std::vector<double> values, std::string name = "w")
      : data(std::move(values)), grad(data.size(), 0.0) {
    tensor = Tensor::view(data.data(), DType::f64, {static_cast<int64_t>(data.size())}, grad.data(),
                          std::move(name));
  }
};

using Values = std::vector<double>;

}  // namespace

TEST_CASE("a tensor used twice gets both gradients", "[tape]") {
  Parameter x({2, -3});
  Tape tape(cpu_backend());
  tape.begin({});
  // x² + x, where x reaches the sum on two paths, and one op twice
  const Tensor y = ops::add(tape, ops::mul(tape, x.tensor, x.tensor), x.tensor);
  tape.backward(ops::weighted_sum(tape, y));
  CHECK(x.grad == Values{5, -5});
}

TEST_CASE("gradients of parameters add up over steps, and scale with the seed", "[tape]") {
  Parameter x({2});
  Tape tape(cpu_backend());
  for (int step = 0; step < 2; ++step) {
    tape.begin({});
    tape.backward(ops::square(tape, x.tensor), 0.5);
  }
  CHECK(x.grad == Values{4});
}

TEST_CASE("detach stops the gradient", "[tape]") {
  Parameter x({3});
  Tape tape(cpu_backend());
  tape.begin({});
  tape.backward(ops::mul(tape, x.tensor, x.tensor.detach()));
  CHECK(x.grad == Values{3});  // not 6
}

TEST_CASE("a gradient passes through reshape", "[tape]") {
  Parameter x({1, 2, 3, 4});
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor y = ops::square(tape, x.tensor).reshape({2, 2});
  tape.backward(ops::weighted_sum(tape, ops::scale(tape, y, 0.5)));
  CHECK(x.grad == Values{1, 2, 3, 4});
}

TEST_CASE("only what asks for a gradient gets one", "[tape]") {
  Parameter x({3});
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor constant = tape.constant(Values{5}, {1});
  CHECK_FALSE(ops::square(tape, constant).requires_grad());
  const Tensor y = ops::mul(tape, x.tensor, constant);
  CHECK(y.requires_grad());
  tape.backward(y);
  CHECK(x.grad == Values{5});
  CHECK_FALSE(constant.has_grad());
}

TEST_CASE("a branch that the loss does not use is not run backward", "[tape]") {
  Parameter x({0});
  Tape tape(cpu_backend());
  tape.begin({});
  ops::log(tape, x.tensor);  // its gradient at 0 would be infinite
  tape.backward(ops::scale(tape, x.tensor, 2));
  CHECK(x.grad == Values{2});
}

TEST_CASE("evaluation records nothing", "[tape]") {
  Parameter x({3});
  Tape tape(cpu_backend());
  Tape::Options options;
  options.record = false;
  tape.begin(options);
  const Tensor y = ops::square(tape, x.tensor);
  CHECK(y.data<double>()[0] == 9);
  CHECK_FALSE(y.requires_grad());
  CHECK(error_of([&] { tape.backward(y); }) ==
        "[backward] the loss depends on nothing that asks for a gradient");
}

TEST_CASE("backward takes one number", "[tape][errors]") {
  Parameter x({1, 2});
  Tape tape(cpu_backend());
  tape.begin({});
  CHECK(error_of([&] { tape.backward(ops::square(tape, x.tensor)); }) ==
        "[backward] a loss of one number expected: got (2,)");
}

TEST_CASE("activations of the last step are stale, parameters are not", "[tape]") {
  Parameter x({2});
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor old = ops::square(tape, x.tensor);
  tape.begin({});
  CHECK(error_of([&] { ops::square(tape, old); }) == "[tensor] used after its step arena was reset: (1,)");
  CHECK(ops::square(tape, x.tensor).data<double>()[0] == 4);
}

TEST_CASE("a steady training step takes no new memory", "[tape]") {
  Parameter x(Values(5000, 1.0));
  Tape tape(cpu_backend());
  size_t used = 0;
  for (int step = 0; step < 3; ++step) {
    tape.begin({});
    Tensor y = x.tensor;
    for (int i = 0; i < 40; ++i) y = ops::scale(tape, y, 1.01);
    tape.backward(ops::weighted_sum(tape, y));
    if (step > 0) CHECK(tape.arena().used() == used);
    used = tape.arena().used();
  }
}

TEST_CASE("check_finite names the op whose output or gradient is not finite", "[tape]") {
  Tape tape(cpu_backend());
  Tape::Options options;
  options.check_finite = true;
  const auto failed_op = [](auto&& f) -> std::pair<std::string, std::string> {
    try {
      f();
    } catch (const NonFiniteError& e) {
      return {e.op(), e.what()};
    }
    return {};
  };
  using Failure = std::pair<std::string, std::string>;

  Parameter negative({-1});
  tape.begin(options);
  CHECK(failed_op([&] { ops::square(tape, ops::log(tape, negative.tensor)); }) ==
        Failure("log", "[log] NaN or Inf in its output (1,)"));

  Parameter zero({0}, "gate.weight");
  tape.begin(options);
  const Tensor y = ops::exp(tape, ops::log(tape, zero.tensor));  // -inf is log 0: it passes
  CHECK(y.data<double>()[0] == 0);
  CHECK(failed_op([&] { tape.backward(y); }) ==
        Failure("log", "[log] NaN or Inf in its input gradient gate.weight (1,)"));

  tape.begin(Tape::Options{});  // without the check, NaN passes
  CHECK(std::isnan(ops::log(tape, negative.tensor).data<double>()[0]));
}

TEST_CASE("random streams of a tape differ by purpose, draw, step and seed, and repeat", "[tape]") {
  Tape tape(cpu_backend());
  const auto draws = [&](uint64_t seed, uint64_t step, const char* purpose) {
    Tape::Options options;
    options.seed = seed;
    options.step = step;
    tape.begin(options);
    const uint64_t first = tape.random(purpose).bits(0), second = tape.random(purpose).bits(0);
    return std::pair(first, second);
  };
  const auto base = draws(1, 2, "dropout");
  CHECK(base.first != base.second);
  CHECK(draws(1, 2, "dropout") == base);
  for (const auto& other : {draws(2, 2, "dropout"), draws(1, 3, "dropout"), draws(1, 2, "noise")}) {
    CHECK(other.first != base.first);
    CHECK(other.second != base.second);
  }
}

TEST_CASE("a probe gets the activations that it wants", "[tape]") {
  struct Recorder : Probe {
    std::vector<std::string> taken;
    bool wants(const std::string& name) const override { return name == "blocks.1.out"; }
    void take(const std::string& name, const Tensor&) override { taken.push_back(name); }
  } recorder;
  Tape tape(cpu_backend());
  Tape::Options options;
  options.probe = &recorder;
  tape.begin(options);
  for (const char* name : {"blocks.0.out", "blocks.1.out"}) tape.probe(name, tape.scratch(DType::f32, {1}));
  CHECK(recorder.taken == std::vector<std::string>{"blocks.1.out"});
  CHECK(tape.probing("blocks.1.out"));
  CHECK_FALSE(tape.probing("blocks.0.out"));
  tape.begin({});
  CHECK_FALSE(tape.probing("blocks.1.out"));
}
