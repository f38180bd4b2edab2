// The copy mixture: values and gradients from closed gates to open ones, and the sums of its variants.
#include "core/ops/copy_mixture.h"

#include <cmath>
#include <vector>

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

Op op_of(double floor, bool drop_sink) {
  return [=](Tape& tape, const std::vector<Tensor>& x) {
    return ops::copy_mixture(tape, x[0], x[1], x[2], x[3], floor, drop_sink);
  };
}

std::vector<Input> inputs_of(const std::vector<std::array<double, 4>>& rows) {
  const int64_t n = static_cast<int64_t>(rows.size());
  std::vector<Input> x(4, Input{{n}, std::vector<double>(n)});
  for (int64_t i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j) x[j].values[i] = rows[i][j];
  return x;
}

// Combinations of LM log-probabilities, gates, copy masses and sinks.
std::vector<std::array<double, 4>> grid(bool with_infinities) {
  std::vector<std::array<double, 4>> rows;
  std::vector<double> copies = {-30, -1, -0.01}, sinks = {-30, -2, -1e-3};
  if (with_infinities) {
    copies.push_back(-INFINITY);
    sinks.push_back(-INFINITY);
    sinks.push_back(0);
  }
  for (double lm : {-25.0, -0.05})
    for (double gate : {-40.0, -8.0, 3.0, 40.0})
      for (double copy : copies)
        for (double sink : sinks) rows.push_back({lm, gate, copy, sink});
  return rows;
}

double reference(const std::array<double, 4>& row, double floor, bool drop_sink) {
  using Real = long double;
  const Real gate = row[1], open = 1 / (1 + std::exp(-gate)), shut = 1 / (1 + std::exp(gate));
  const Real a = floor + (1 - Real(floor)) * open, rest = (1 - Real(floor)) * shut;
  const Real sink = drop_sink ? Real(0) : std::exp(Real(row[3]));
  return static_cast<double>(
      -std::log(std::exp(Real(row[0])) * (rest + a * sink) + a * std::exp(Real(row[2]))));
}

}  // namespace

TEST_CASE("copy_mixture equals its definition for gates from -40 to 40", "[copy_mixture]") {
  const auto rows = grid(true);
  for (double floor : {0.0, 0.1})
    for (bool drop_sink : {false, true}) {
      std::vector<double> expected;
      for (const auto& row : rows) expected.push_back(reference(row, floor, drop_sink));
      CHECK(difference(run_op<double>(op_of(floor, drop_sink), inputs_of(rows)).outputs[0], expected) <
            1e-14);
      CHECK(difference(run_op<float>(op_of(floor, drop_sink), inputs_of(rows)).outputs[0], expected) < 5e-7);
      CHECK(float32_error(op_of(floor, drop_sink), inputs_of(rows)) == "");
    }
}

TEST_CASE("copy_mixture gradients", "[copy_mixture][gradient]") {
  for (double floor : {0.0, 0.1})
    for (bool drop_sink : {false, true}) check_op(op_of(floor, drop_sink), inputs_of(grid(false)));
}

TEST_CASE("copy_mixture gradients at minus infinity are those of the limit", "[copy_mixture]") {
  // No match: only the LM head speaks. No sink: its slope is 0. Nothing possible: no gradient at all.
  const std::vector<std::array<double, 4>> rows = {{-3, 0.5, -INFINITY, -1},
                                                   {-3, 0.5, -1, -INFINITY},
                                                   {-INFINITY, 0.5, -1, -1},
                                                   {-INFINITY, 0.5, -INFINITY, -1}};
  std::vector<std::array<double, 4>> near = rows;
  for (auto& row : near)
    for (double& v : row)
      if (v == -INFINITY) v = -600;
  for (double floor : {0.0, 0.1}) {
    const OpResult a = run_op<double>(op_of(floor, false), inputs_of(rows));
    const OpResult b = run_op<double>(op_of(floor, false), inputs_of(near));
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < 3; ++i) CHECK(a.gradients[j][i] == Approx(b.gradients[j][i]).margin(1e-14));
      CHECK(a.gradients[j][3] == 0.0);
    }
    CHECK(a.outputs[0][3] == INFINITY);
  }
}

TEST_CASE("copy_mixture probabilities sum to one over the vocabulary, less the sink where it is dropped",
          "[copy_mixture]") {
  // papers: CPLM §2.5. A (= C), I with a floor, G (the same function of another gate), F with no sink: sum 1.
  // B: 1 - alpha·a_sink.
  constexpr int kVocab = 23;
  const std::vector<double> logits = random_input({kVocab}, "logits").values;
  const std::vector<double> masses = uniform_input({kVocab + 1}, "masses", 0, 1).values;
  double lm_sum = 0, mass_sum = 0;
  for (double z : logits) lm_sum += std::exp(z);
  for (double m : masses) mass_sum += m;
  for (double gate : {-6.0, 0.0, 2.0, 9.0})
    for (double floor : {0.0, 0.2})
      for (bool has_sink : {true, false})
        for (bool drop_sink : {true, false}) {
          const double pointed = has_sink ? mass_sum : mass_sum - masses[kVocab];
          const double sink = has_sink ? masses[kVocab] / mass_sum : 0;
          std::vector<std::array<double, 4>> rows;
          for (int v = 0; v < kVocab; ++v)
            rows.push_back(
                {logits[v] - std::log(lm_sum), gate, std::log(masses[v] / pointed), std::log(sink)});
          double sum = 0;
          const OpResult result = run_op<double>(op_of(floor, drop_sink), inputs_of(rows));
          for (double nll : result.outputs[0]) sum += std::exp(-nll);
          const double share = floor + (1 - floor) / (1 + std::exp(-gate));
          CHECK(sum == Approx(drop_sink ? 1 - share * sink : 1.0).epsilon(1e-13));
        }
}

TEST_CASE("copy_mixture refuses shapes and floors that do not fit", "[copy_mixture]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor a = tape.scratch(DType::f32, {4}), b = tape.scratch(DType::f32, {3});
  CHECK(error_of([&] { ops::copy_mixture(tape, a, a, b, a); }) ==
        "[copy_mixture] lm, gate_logit, log_copy and log_sink of one shape expected: got (4,), (4,), (3,), "
        "(4,)");
  CHECK(error_of([&] { ops::copy_mixture(tape, a, a, a, a, 1.0); }) ==
        "[copy_mixture] gate_floor in [0, 1) expected: got 1");
}
