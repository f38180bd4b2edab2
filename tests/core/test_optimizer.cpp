// Optimizer over flat buffers: which parameters decay, exact first steps, clipping.
#include "core/optim/optimizer.h"

#include <cmath>

#include "tests/catch.h"

using namespace copylab;
using nn::Init;

namespace {

struct Pair {
  nn::Parameters parameters{cpu_backend(), DType::f64};
  const Tensor& weight = parameters.add("weight", {3}, Init::constant(2.0), true);
  const Tensor& norm = parameters.add("norm", {5}, Init::constant(1.0), false);
  Pair() { parameters.initialise(1); }
  void set_gradient(double value) {
    for (const Tensor& t : {weight, norm})
      for (int64_t i = 0; i < t.size(); ++i) t.grad<double>()[i] = value;
  }
};

}  // namespace

TEST_CASE("the first AdamW step moves by lr·sign(g), and only weights decay", "[optimizer]") {
  Pair p;
  optim::Optimizer adamw(p.parameters, {optim::OptimizerOptions::Kind::adamw, 0.9, 0.95, 0.0, 0.5});
  p.set_gradient(-3.0);
  adamw.step(0.25);
  for (int i = 0; i < 3; ++i) CHECK(p.weight.data<double>()[i] == Approx(2.0 - 0.25 * (-1.0 + 0.5 * 2.0)));
  for (int i = 0; i < 5; ++i) CHECK(p.norm.data<double>()[i] == Approx(1.25));
  for (int i = 0; i < 3; ++i) CHECK(p.weight.grad<double>()[i] == 0.0);
}

TEST_CASE("padding between parameters stays zero", "[optimizer]") {
  Pair p;
  optim::Optimizer adamw(p.parameters, {});
  p.set_gradient(1.0);
  adamw.step(0.1);
  const double* flat = static_cast<const double*>(p.parameters.flat_data());
  for (int i = 3; i < 8; ++i) CHECK(flat[i] == 0.0);
}

TEST_CASE("sgd subtracts the scaled gradient", "[optimizer]") {
  Pair p;
  optim::OptimizerOptions options;
  options.kind = optim::OptimizerOptions::Kind::sgd;
  options.weight_decay = 0.0;
  optim::Optimizer sgd(p.parameters, options);
  p.set_gradient(4.0);
  sgd.step(0.5, 0.25);
  CHECK(p.weight.data<double>()[2] == Approx(1.5));
  CHECK(sgd.state().empty());
}

TEST_CASE("clipping leaves the norm at its bound and small gradients alone", "[optimizer]") {
  Pair p;
  p.set_gradient(1.0);
  const double norm = optim::gradient_norm(p.parameters);
  CHECK(norm == Approx(std::sqrt(8.0)));
  CHECK(norm * optim::clip_scale(norm, 1.0) == Approx(1.0));
  CHECK(optim::clip_scale(norm, 3.0) == 1.0);
  CHECK(optim::clip_scale(norm, 0.0) == 1.0);
}

TEST_CASE("state buffers are named and shaped after the parameters", "[optimizer]") {
  Pair p;
  optim::Optimizer adamw(p.parameters, {});
  const auto state = adamw.state();
  REQUIRE(state.size() == 4);
  CHECK(state[0].name == "m.weight");
  CHECK(state[3].name == "v.norm");
  CHECK(state[3].tensor.shape() == Shape{5});
}

TEST_CASE("initial values depend on seed and name only", "[parameters]") {
  const auto first = [](uint64_t seed, bool extra) {
    nn::Parameters p(cpu_backend(), DType::f32);
    if (extra) p.add("before", {7}, Init::normal(1.0), true);
    const Tensor& w = p.add("w", {100, 100}, Init::normal(0.5), true);
    p.initialise(seed);
    return std::vector<float>(w.data<float>(), w.data<float>() + w.size());
  };
  const auto w = first(3, false);
  CHECK(w == first(3, true));
  CHECK(w != first(4, false));
  double mean = 0, square = 0;
  for (float x : w) {
    mean += x / 1e4;
    square += x * x / 1e4;
  }
  CHECK(mean == Approx(0.0).margin(5 * 0.5 / 100));
  CHECK(std::sqrt(square) == Approx(0.5).epsilon(5 * 0.71 / 100));
}

TEST_CASE("a parameter cannot be declared twice", "[parameters]") {
  nn::Parameters p(cpu_backend(), DType::f32);
  p.add("w", {1}, Init::constant(0), true);
  CHECK_THROWS_WITH(p.add("w", {1}, Init::constant(0), true), "[parameters] w was added twice");
}
