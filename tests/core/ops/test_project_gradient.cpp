// project_gradient: identity forward; backward, a projection that keeps the root mean square.
#include "core/ops/project_gradient.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

// project_gradient on the columns of a rotation by `angle` in the plane of the first two of three axes.
auto project(double angle, int64_t rank) {
  const double c = std::cos(angle), s = std::sin(angle);
  const double rotation[3][3] = {{c, -s, 0}, {s, c, 0}, {0, 0, 1}};
  std::vector<double> basis;
  for (const auto& row : rotation) basis.insert(basis.end(), row, row + rank);
  return [basis, rank](Tape& tape, const std::vector<Tensor>& in) {
    Tensor b = tape.scratch(in[0].dtype(), {3, rank});
    dispatch_float(b.dtype(), "test", [&](auto tag) {
      using T = decltype(tag);
      std::copy(basis.begin(), basis.end(), b.data<T>());
    });
    return ops::project_gradient(tape, in[0], b);
  };
}

double square(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return sum;
}

}  // namespace

TEST_CASE("project_gradient on a full basis is the identity, forward and backward", "[project_gradient]") {
  const Input x = random_input({5, 3}, "x");
  CHECK(run_op<double>(project(0.7, 3), {x}).outputs[0] == x.values);
  check_op(project(0.7, 3), {x});
}

TEST_CASE("project_gradient leaves the subspace only, at the same root mean square", "[project_gradient]") {
  const double angle = 0.7;
  const Input x = random_input({5, 3}, "x");
  const OpResult result = run_op<double>(project(angle, 1), {x}),
                 full = run_op<double>(project(angle, 3), {x});
  CHECK(result.outputs[0] == x.values);
  const std::vector<double>&projected = result.gradients[0], &upstream = full.gradients[0];
  CHECK(square(projected) == Approx(square(upstream)).epsilon(1e-10));
  double inside = 0;  // square of the upstream gradient in the subspace, of which each row keeps its share
  for (int row = 0; row < 5; ++row) {
    const double along = upstream[row * 3] * std::cos(angle) + upstream[row * 3 + 1] * std::sin(angle);
    inside += along * along;
  }
  const double factor = std::sqrt(square(upstream) / inside);
  for (int row = 0; row < 5; ++row) {
    const double along = upstream[row * 3] * std::cos(angle) + upstream[row * 3 + 1] * std::sin(angle);
    CHECK(projected[row * 3] == Approx(factor * along * std::cos(angle)).margin(1e-12));
    CHECK(projected[row * 3 + 1] == Approx(factor * along * std::sin(angle)).margin(1e-12));
    CHECK(projected[row * 3 + 2] == Approx(0).margin(1e-12));
  }
}

TEST_CASE("project_gradient has the same bits for any number of threads", "[project_gradient][threads]") {
  CHECK(thread_error(project(0.3, 2), {random_input({20001, 3}, "x")}) == "");
}

TEST_CASE("project_gradient names what is wrong", "[project_gradient][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor x = tape.scratch(DType::f32, {2, 3});
  CHECK(error_of([&] {
          ops::project_gradient(tape, x, tape.scratch(DType::f32, {2, 1}));
        }) == "[project_gradient] x (…, D) and basis (D, r) must agree on D: got (2, 3), (2, 1)");
  CHECK(error_of([&] {
          ops::project_gradient(tape, x, tape.scratch(DType::f32, {3, 4}));
        }) == "[project_gradient] rank at most 3 expected: got 4");
}
