// elementwise: each function against std, gradients, log-space edges, and aliasing.
#include "core/ops/elementwise.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct UnaryCase {
  const char* name;
  Tensor (*op)(Tape&, const Tensor&);
  double (*reference)(double);
  double low, high;  // where it is checked
};
const UnaryCase kUnary[] = {
    {"sigmoid", ops::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -6, 6},
    {"tanh", ops::tanh, [](double x) { return std::tanh(x); }, -3, 3},
    {"silu", ops::silu, [](double x) { return x / (1 + std::exp(-x)); }, -6, 6},
    {"relu", ops::relu, [](double x) { return x > 0 ? x : 0; }, 0.1, 3},
    {"relu below 0", ops::relu, [](double) { return 0.0; }, -3, -0.1},
    {"softplus", ops::softplus, [](double x) { return std::log1p(std::exp(x)); }, -6, 6},
    {"log_sigmoid", ops::log_sigmoid, [](double x) { return -std::log1p(std::exp(-x)); }, -6, 6},
    {"exp", ops::exp, [](double x) { return std::exp(x); }, -3, 3},
    {"log", ops::log, [](double x) { return std::log(x); }, 0.5, 4},
    {"square", ops::square, [](double x) { return x * x; }, -3, 3},
    {"neg", ops::neg, [](double x) { return -x; }, -3, 3},
};

auto unary(Tensor (*op)(Tape&, const Tensor&)) {
  return [op](Tape& tape, const std::vector<Tensor>& in) { return op(tape, in[0]); };
}
auto binary(Tensor (*op)(Tape&, const Tensor&, const Tensor&)) {
  return [op](Tape& tape, const std::vector<Tensor>& in) { return op(tape, in[0], in[1]); };
}

// f(x) and f'(x) of a unary function at one point.
template <class T>
std::pair<double, double> value_and_slope(Tensor (*op)(Tape&, const Tensor&), double at) {
  T x = static_cast<T>(at), dx = 0;
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor y = op(tape, Tensor::view(&x, dtype_of<T>(), {1}, &dx));
  tape.backward(y);
  return {y.data<T>()[0], dx};
}

struct Pair {
  double y, da, db;
};
template <class T>
Pair logaddexp_at(double at_a, double at_b) {
  T a = static_cast<T>(at_a), b = static_cast<T>(at_b), da = 0, db = 0;
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor y = ops::logaddexp(tape, Tensor::view(&a, dtype_of<T>(), {1}, &da),
                                  Tensor::view(&b, dtype_of<T>(), {1}, &db));
  tape.backward(y);
  return {y.data<T>()[0], da, db};
}

}  // namespace

TEST_CASE("unary functions follow std and pass the gradient check", "[elementwise]") {
  for (const UnaryCase& c : kUnary) {
    INFO(c.name);
    const Input x = uniform_input({3, 29}, c.name, c.low, c.high);
    std::vector<double> expected;
    for (double v : x.values) expected.push_back(c.reference(v));
    CHECK(difference(run_op<double>(unary(c.op), {x}).outputs[0], expected) < 2e-15);
    check_op(unary(c.op), {x});
    CHECK(thread_error(unary(c.op), {uniform_input({40007}, c.name, c.low, c.high)}) == "");
  }
}

TEST_CASE("binary functions pass the gradient check, also of a tensor with itself", "[elementwise]") {
  struct Case {
    const char* name;
    Tensor (*op)(Tape&, const Tensor&, const Tensor&);
    double (*reference)(double, double);
  };
  const Case cases[] = {
      {"add", ops::add, [](double a, double b) { return a + b; }},
      {"sub", ops::sub, [](double a, double b) { return a - b; }},
      {"mul", ops::mul, [](double a, double b) { return a * b; }},
      {"logaddexp", ops::logaddexp, [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }},
  };
  const Input a = random_input({3, 29}, "a"), b = random_input({3, 29}, "b");
  for (const Case& c : cases) {
    INFO(c.name);
    std::vector<double> expected;
    for (size_t i = 0; i < a.values.size(); ++i) expected.push_back(c.reference(a.values[i], b.values[i]));
    CHECK(difference(run_op<double>(binary(c.op), {a, b}).outputs[0], expected) < 2e-15);
    check_op(binary(c.op), {a, b});
    check_op([&](Tape& tape, const std::vector<Tensor>& in) { return c.op(tape, in[0], in[0]); }, {a});
    CHECK(thread_error(binary(c.op), {random_input({40007}, "a"), random_input({40007}, "b")}) == "");
  }
}

TEST_CASE("affine, scale and add_scalar", "[elementwise]") {
  const Input x = random_input({3, 29}, "x");
  const auto affine = [](Tape& tape, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{ops::affine(tape, in[0], -2.5, 0.75), ops::scale(tape, in[0], 3.0),
                               ops::add_scalar(tape, in[0], 4.0)};
  };
  const OpResult result = run_op<double>(affine, {x});
  for (size_t i = 0; i < x.values.size(); ++i) {
    CHECK(result.outputs[0][i] == Approx(-2.5 * x.values[i] + 0.75).margin(1e-14));  // fused or not
    CHECK(result.outputs[1][i] == 3.0 * x.values[i]);
    CHECK(result.outputs[2][i] == x.values[i] + 4.0);
  }
  check_op(affine, {x});
}

TEMPLATE_TEST_CASE("softplus and log_sigmoid are accurate at both ends", "[elementwise]", float, double) {
  const double epsilon = 8 * std::numeric_limits<TestType>::epsilon();
  for (double x : {-80.0, -40.0, -20.0, -1.0, 0.0, 1.0, 20.0, 40.0, 80.0}) {
    INFO(x);
    const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    const double sigmoid = x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
    const auto [y, slope] = value_and_slope<TestType>(ops::softplus, x);
    CHECK(y == Approx(softplus).epsilon(epsilon));
    CHECK(slope == Approx(sigmoid).epsilon(epsilon));
    const auto [log_sigmoid, log_slope] = value_and_slope<TestType>(ops::log_sigmoid, -x);
    CHECK(log_sigmoid == Approx(-softplus).epsilon(epsilon));
    CHECK(log_slope == Approx(sigmoid).epsilon(epsilon));
  }
  // Far beyond: no overflow, no NaN.
  CHECK(value_and_slope<TestType>(ops::softplus, 1e4) == std::pair<double, double>(1e4, 1));
  CHECK(value_and_slope<TestType>(ops::softplus, -1e4) == std::pair<double, double>(0, 0));
  CHECK(value_and_slope<TestType>(ops::log_sigmoid, -1e4) == std::pair<double, double>(-1e4, 1));
}

TEMPLATE_TEST_CASE("sigmoid and its slope keep relative precision in both tails", "[elementwise]", float,
                   double) {
  const double epsilon = 8 * std::numeric_limits<TestType>::epsilon();
  for (double x : {-80.0, -40.0, -17.0, 17.0, 40.0, 80.0}) {
    INFO(x);
    const double e = std::exp(-std::abs(x));
    const auto [y, slope] = value_and_slope<TestType>(ops::sigmoid, x);
    CHECK(y == Approx(x > 0 ? 1 / (1 + e) : e / (1 + e)).epsilon(epsilon));
    CHECK(slope == Approx(e / ((1 + e) * (1 + e))).epsilon(epsilon));
  }
  CHECK(value_and_slope<TestType>(ops::sigmoid, 1e4) == std::pair<double, double>(1, 0));
  CHECK(value_and_slope<TestType>(ops::sigmoid, -1e4) == std::pair<double, double>(0, 0));
}

TEMPLATE_TEST_CASE("tanh is odd, accurate near 0 and saturates", "[elementwise]", float, double) {
  const double epsilon = 8 * std::numeric_limits<TestType>::epsilon();
  for (double x : {1e-30, 1e-8, 1e-4, 0.01, 0.3, 0.49, 0.51, 1.0, 5.0, 30.0, 1e4}) {
    INFO(x);
    const double y = value_and_slope<TestType>(ops::tanh, x).first;
    CHECK(y == Approx(std::tanh(static_cast<double>(static_cast<TestType>(x)))).epsilon(epsilon));
    CHECK(value_and_slope<TestType>(ops::tanh, -x).first == -y);
  }
  CHECK(value_and_slope<TestType>(ops::tanh, 0).first == 0);
}

TEST_CASE("relu passes no gradient at or below 0", "[elementwise]") {
  CHECK(value_and_slope<double>(ops::relu, 0.0) == std::pair<double, double>(0, 0));
  CHECK(value_and_slope<double>(ops::relu, -1.0) == std::pair<double, double>(0, 0));
  CHECK(value_and_slope<double>(ops::relu, 2.0) == std::pair<double, double>(2, 1));
}

TEMPLATE_TEST_CASE("logaddexp takes -inf as log 0", "[elementwise]", float, double) {
  const Pair both = logaddexp_at<TestType>(-kInf, -kInf);
  CHECK(both.y == -kInf);
  CHECK(both.da == 0);
  CHECK(both.db == 0);
  const Pair left = logaddexp_at<TestType>(-kInf, 1.5), right = logaddexp_at<TestType>(1.5, -kInf);
  CHECK(left.y == 1.5);
  CHECK(left.da == 0);
  CHECK(left.db == 1);
  CHECK(right.y == 1.5);
  CHECK(right.da == 1);
  CHECK(right.db == 0);
  // Large values neither overflow nor lose the smaller part.
  const Pair large = logaddexp_at<TestType>(1e4, 1e4);
  CHECK(large.y == Approx(1e4 + std::log(2.0)).epsilon(1e-7));
  CHECK(large.da == Approx(0.5).epsilon(1e-3));
}

TEST_CASE("NaN passes through instead of turning into a number", "[elementwise]") {
  for (const UnaryCase& c : kUnary) {
    INFO(c.name);
    CHECK(std::isnan(value_and_slope<float>(c.op, NAN).first));
  }
}

TEST_CASE("elementwise ops name what is wrong", "[elementwise][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor a = tape.scratch(DType::f32, {2, 3}), b = tape.scratch(DType::f32, {3});
  CHECK(error_of([&] { ops::add(tape, a, b); }) == "[add] equal shapes expected: got (2, 3), (3,)");
  CHECK(error_of([&] { ops::logaddexp(tape, b, a); }) ==
        "[logaddexp] equal shapes expected: got (3,), (2, 3)");
  CHECK(error_of([&] { ops::tanh(tape, tape.scratch(DType::i32, {2})); }) ==
        "[tanh] float32 or float64 expected: got int32");
}
