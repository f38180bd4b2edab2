// LSTM against a plain double recurrence, and its gradients by differences.
#include "core/ops/lstm.h"

#include <cmath>
#include <vector>

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

std::vector<Tensor> all(const ops::LstmResult& r) {
  return {r.h, r.h_last, r.c_last};
}

// Inputs x, w_ih, w_hh, b_ih, b_hh, h0, c0.
std::vector<Input> inputs_of(int64_t batch, int64_t length, int64_t in, int64_t hidden) {
  return {random_input({batch, length, in}, "x"),
          random_input({4 * hidden, in}, "w_ih", 0.5),
          random_input({4 * hidden, hidden}, "w_hh", 0.5),
          random_input({4 * hidden}, "b_ih", 0.5),
          random_input({4 * hidden}, "b_hh", 0.5),
          random_input({batch, hidden}, "h0"),
          random_input({batch, hidden}, "c0")};
}

const Op full = [](Tape& tape, const std::vector<Tensor>& x) {
  return all(ops::lstm(tape, x[0], x[1], x[2], x[3], x[4], x[5], x[6]));
};

Op zoned(ops::ZoneoutRates rates) {
  return [rates](Tape& tape, const std::vector<Tensor>& x) {
    return all(ops::lstm(tape, x[0], x[1], x[2], x[3], x[4], x[5], x[6], rates));
  };
}

// The recurrence by its equations; with zoneout, in evaluation.
std::vector<std::vector<double>> reference(const std::vector<Input>& in, ops::ZoneoutRates zone = {}) {
  const int64_t B = in[0].shape[0], T = in[0].shape[1], I = in[0].shape[2], H = in[2].shape[1];
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  std::vector<double> hs, h = in[5].values, c = in[6].values;
  hs.resize(B * T * H);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < T; ++t) {
      std::vector<double> gate(4 * H);
      for (int64_t j = 0; j < 4 * H; ++j) {
        gate[j] = in[3].values[j] + in[4].values[j];
        for (int64_t i = 0; i < I; ++i)
          gate[j] += in[1].values[j * I + i] * in[0].values[(b * T + t) * I + i];
        for (int64_t i = 0; i < H; ++i) gate[j] += in[2].values[j * H + i] * h[b * H + i];
      }
      for (int64_t j = 0; j < H; ++j) {
        double &cell = c[b * H + j], &out = h[b * H + j];
        const double next = sigmoid(gate[H + j]) * cell + sigmoid(gate[j]) * std::tanh(gate[2 * H + j]);
        out = zone.h * out + (1 - zone.h) * sigmoid(gate[3 * H + j]) * std::tanh(next);
        cell = zone.c * cell + (1 - zone.c) * next;
        hs[(b * T + t) * H + j] = out;
      }
    }
  return {hs, h, c};
}

}  // namespace

TEST_CASE("lstm equals its recurrence", "[lstm]") {
  for (const auto& [batch, hidden] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 17}, {19, 33}}) {
    const std::vector<Input> x = inputs_of(batch, 6, 5, hidden);
    const auto expected = reference(x);
    const OpResult wide = run_op<double>(full, x), narrow = run_op<float>(full, x);
    CHECK(wide.overruns.empty());
    CHECK(narrow.overruns.empty());
    for (size_t i = 0; i < 3; ++i) {
      CHECK(difference(wide.outputs[i], expected[i]) < 1e-13);
      CHECK(difference(narrow.outputs[i], expected[i]) < 1e-5);
    }
    CHECK(thread_error(full, x) == "");
  }
}

TEST_CASE("lstm gradients", "[lstm][gradient]") {
  check_op(full, inputs_of(2, 4, 3, 3));
}

TEST_CASE("lstm gradients from each output alone", "[lstm][gradient]") {
  for (int which = 0; which < 3; ++which) {
    const Op one = [which](Tape& tape, const std::vector<Tensor>& x) {
      return all(ops::lstm(tape, x[0], x[1], x[2], x[3], x[4], x[5], x[6]))[which];
    };
    CHECK(gradient_error(one, inputs_of(2, 3, 2, 2)) == "");
  }
}

TEST_CASE("lstm with zoneout: evaluation moves by the expected share", "[lstm]") {
  CheckOptions evaluation;
  evaluation.training = false;
  for (const ops::ZoneoutRates rates : {ops::ZoneoutRates{0.3, 0}, {0, 0.4}, {0.2, 0.6}}) {
    const std::vector<Input> x = inputs_of(3, 5, 4, 19);
    const auto expected = reference(x, rates);
    const OpResult got = run_op<double>(zoned(rates), x, evaluation);
    for (size_t i = 0; i < 3; ++i) CHECK(difference(got.outputs[i], expected[i]) < 1e-13);
    check_op(zoned(rates), inputs_of(2, 3, 2, 3), evaluation);
  }
}

TEST_CASE("lstm with zoneout: gradients under fixed masks, for any number of threads", "[lstm][gradient]") {
  for (const ops::ZoneoutRates rates : {ops::ZoneoutRates{0.5, 0}, {0, 0.5}, {0.3, 0.6}})
    check_op(zoned(rates), inputs_of(2, 4, 3, 5));
  CHECK(thread_error(zoned({0.3, 0.6}), inputs_of(30, 9, 5, 33)) == "");
}

TEST_CASE("lstm with zoneout keeps units at its rates, anew for every step", "[lstm]") {
  constexpr int64_t B = 5, T = 40, H = 50;
  std::vector<Input> x = inputs_of(B, T, 3, H);
  const OpResult run = run_op<double>(zoned({0.3, 0}), x);
  const std::vector<double>& h = run.outputs[0];
  int64_t kept = 0, twice = 0;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t j = 0; j < H; ++j) {
      bool before = false;
      for (int64_t t = 0; t < T; ++t) {
        const double old = t > 0 ? h[(b * T + t - 1) * H + j] : x[5].values[b * H + j];
        const bool keeps = h[(b * T + t) * H + j] == old;
        kept += keeps;
        twice += keeps && before;
        before = keeps;
      }
    }
  const double n = B * T * H;
  CHECK(std::abs(kept / n - 0.3) < 5 * std::sqrt(0.21 / n));
  CHECK(std::abs(twice / n - 0.09 * (T - 1) / T) < 6 * std::sqrt(0.09 / n));  // steps are independent
  CheckOptions other;
  other.seed = 8;
  CHECK(run_op<double>(zoned({0.3, 0}), x).outputs[0] == h);
  CHECK(run_op<double>(zoned({0.3, 0}), x, other).outputs[0] != h);
}

TEST_CASE("lstm without biases and first states is lstm with zeros", "[lstm]") {
  std::vector<Input> x = inputs_of(2, 5, 3, 4);
  for (size_t i = 3; i < 7; ++i) std::fill(x[i].values.begin(), x[i].values.end(), 0.0);
  const Op bare = [](Tape& tape, const std::vector<Tensor>& in) {
    return all(ops::lstm(tape, in[0], in[1], in[2]));
  };
  const OpResult with = run_op<double>(full, x), without = run_op<double>(bare, {x[0], x[1], x[2]});
  for (size_t i = 0; i < 3; ++i) {
    CHECK(with.outputs[i] == without.outputs[i]);
    CHECK(with.gradients[i] == without.gradients[i]);
  }
}

TEST_CASE("lstm refuses shapes that do not fit", "[lstm]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const auto f = [&](Shape s) { return tape.scratch(DType::f32, s); };
  CHECK(error_of([&] {
          ops::lstm(tape, f({2, 5, 3}), f({16, 2}), f({16, 4}));
        }) == "[lstm] w_ih (16, 3) expected: got (16, 2)");
  CHECK(error_of([&] {
          ops::lstm(tape, f({2, 5, 3}), f({12, 3}), f({12, 4}));
        }) == "[lstm] w_hh (4H, H) expected: got (12, 4)");
  CHECK(error_of([&] {
          ops::lstm(tape, f({2, 5, 3}), f({16, 3}), f({16, 4}), {}, {}, f({2, 3}));
        }) == "[lstm] h0 (2, 4) expected: got (2, 3)");
  CHECK(error_of([&] {
          ops::lstm(tape, f({2, 5, 3}), f({16, 3}), f({16, 4}), {}, {}, {}, {}, {0.5, 1.0});
        }) == "[lstm] rates of zoneout in [0, 1) expected: got 0.5, 1");
}
