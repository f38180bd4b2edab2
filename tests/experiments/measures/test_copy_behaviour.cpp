// copy_behaviour on sequences made by hand.
#include "experiments/measures/copy_behaviour.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

using namespace copylab;

namespace {

// Four positions; labels where a target is not -1.
PointerTrace blank(std::vector<int32_t> tokens, std::vector<int32_t> targets) {
  PointerTrace trace;
  const size_t n = tokens.size();
  trace.tokens = std::move(tokens);
  trace.targets = std::move(targets);
  trace.segment.assign(n, 0);
  for (auto* values : {&trace.nll, &trace.lm_nll, &trace.copy_nll, &trace.gate, &trace.sink, &trace.log_copy})
    values->assign(n, 0.0);
  for (auto* best : {&trace.best, &trace.lm_best, &trace.copy_best}) best->assign(n, 0);
  trace.weights = Matrix::Zero(n, n);
  return trace;
}

// Only the last position has a label; its target stands at 0 and 2, and at 2 after the same two tokens.
PointerTrace last_of_four() {
  PointerTrace trace = blank({5, 7, 5, 7}, {-1, -1, -1, 5});
  trace.gate[3] = 0.5;
  trace.sink[3] = 0.2;
  trace.weights.row(3) << 0.1, 0.1, 0.5, 0.1;
  trace.copy_best[3] = trace.best[3] = 5;
  trace.lm_best[3] = 9;
  return trace;
}

MeasureOutput report(const CopyBehaviour& behaviour) {
  MeasureOutput out;
  behaviour.report(out);
  return out;
}

double value(const MeasureOutput& out, const std::string& name) {
  return out.arrays.at(name).values.at(0);
}

}  // namespace

TEST_CASE("copy mass is divided among its sources, with both controls", "[copy_behaviour]") {
  PointerTrace other = blank({1, 2, 3, 4}, {-1, -1, -1, -1});
  other.weights.row(3) << 0.2, 0.4, 0.1, 0.1;
  CopyBehaviour behaviour({}, 4);
  behaviour.add(last_of_four(), &other);
  const MeasureOutput out = report(behaviour);
  // token at 0 and 2; contexts at 2 alone.
  const std::vector<double> mass = {0.75, 0.625, 0.625, 0.625, 0.625};
  const std::vector<double> chance = {0.5, 0.25, 0.25, 0.25, 0.25};
  const std::vector<double> shuffled = {0.375, 0.125, 0.125, 0.125, 0.125};
  for (size_t s = 0; s < 5; ++s) {
    CHECK(out.arrays.at("source_mass").values[s] == Approx(mass[s]));
    CHECK(out.arrays.at("source_chance").values[s] == Approx(chance[s]));
    CHECK(out.arrays.at("source_shuffled").values[s] == Approx(shuffled[s]));
  }
  CHECK(value(out, "context1_factor") == Approx(2.5));
  CHECK(value(out, "token_context2_factor_shuffled") == Approx(5.0));
  // Distances to the target: 4, 3, 2, 1.
  CHECK(out.coordinates.at("distance") == std::vector<double>{1, 2, 3, 4});
  const std::vector<double> near = {0.125, 0.625, 0.125, 0.125}, right = {0, 0.625, 0, 0.125},
                            control = {0, 0.125, 0, 0.25};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(out.arrays.at("mass_by_distance").values[i] == Approx(near[i]));
    CHECK(out.arrays.at("right_mass_by_distance").values[i] == Approx(right[i]));
    CHECK(out.arrays.at("shuffled_right_mass_by_distance").values[i] == Approx(control[i]));
  }
  CHECK(out.arrays.at("use_by_position").values[3] == Approx(0.4));
  CHECK(out.arrays.at("sink_by_position").values[3] == Approx(0.2));
  CHECK(value(out, "fixes") == 1);
  CHECK(out.arrays.at("labels_by_repeat").values == std::vector<double>{0, 0, 0, 1});
}

TEST_CASE("sources end where the document or the reach of the head ends", "[copy_behaviour]") {
  PointerTrace trace = last_of_four();
  SECTION("a window") {
    CopyBehaviour behaviour({.window = 2}, 4);
    trace.weights.row(3) << 0, 0, 0.7, 0.1;
    behaviour.add(trace, nullptr);
    const MeasureOutput out = report(behaviour);
    CHECK(out.arrays.at("source_mass").values[0] == Approx(0.7 / 0.8));
    CHECK(out.arrays.at("source_chance").values[0] == Approx(0.5));
    CHECK(std::isnan(value(out, "source_shuffled")));
  }
  SECTION("a document that starts at 2") {
    trace.segment = {0, 0, 1, 1};
    trace.weights.row(3) << 0, 0, 0.7, 0.1;
    CopyBehaviour behaviour({}, 4);
    behaviour.add(trace, nullptr);
    const MeasureOutput out = report(behaviour);
    // The token before position 2 belongs to another document: no context agrees.
    CHECK(out.arrays.at("source_mass").values[1] == 0);
    CHECK(out.arrays.at("labels_by_repeat").values == std::vector<double>{0, 1, 0, 0});
  }
  SECTION("the token after the key, without the position itself") {
    // Keys 0..1 stand for positions 1..2.
    CHECK(PointerReach{.shift = 1, .copy_self = false}.keys(trace, 3) == std::vector<int64_t>{0, 1});
    CHECK(PointerReach{.window = 2, .shift = 1}.keys(trace, 3) == std::vector<int64_t>{2});
    CHECK(PointerReach{.copy_self = false}.keys(trace, 0).empty());
  }
}

TEST_CASE("gate, sink, fixes, breaks and modes are counted per label", "[copy_behaviour]") {
  // Target 8 is new; 5 and 6 have been read, 6 after the same token.
  PointerTrace trace = blank({5, 6, 5, 1, 5}, {8, 5, 6, 5, 6});
  trace.gate = {0.1, 0.6, 0.9, 0.3, 0.7};
  trace.sink = {0.9, 0.3, 0.2, 0.4, 0.1};
  trace.lm_best = {8, 5, 1, 5, 1};
  trace.best = {8, 5, 6, 2, 6};       // two fixes, one break
  trace.copy_best = {5, 5, 6, 6, 6};  // right at 1, 2, 4
  trace.nll = {1, 2, 3, 4, 5};
  trace.lm_nll = {1, 1, 1, 1, 2};
  trace.copy_nll = {std::numeric_limits<double>::infinity(), 6, 7, 8, 10};
  for (int64_t t = 0; t < 5; ++t) trace.weights(t, 0) = 1 - trace.sink[t];
  CopyBehaviour behaviour({}, 5);
  behaviour.add(trace, nullptr);
  const MeasureOutput out = report(behaviour);
  CHECK(value(out, "labels") == 5);
  CHECK(value(out, "copyable") == Approx(0.8));
  CHECK(value(out, "pointer_right") == Approx(0.6));
  CHECK(value(out, "gate_auc") == 1.0);  // 0.6, 0.7, 0.9 against 0.1, 0.3
  CHECK(value(out, "sink_auc") == 1.0);
  CHECK(value(out, "fixes") == Approx(0.4));
  CHECK(value(out, "breaks") == Approx(0.2));
  CHECK(value(out, "fixes_over_breaks") == Approx(2.0));
  CHECK(out.arrays.at("labels_by_repeat").values == std::vector<double>{1, 2, 2, 0});
  const std::vector<double>& loss = out.arrays.at("loss_by_repeat").values;  // (repeat, mode)
  CHECK(loss[0] == 1);
  CHECK(std::isnan(loss[2]));
  CHECK(loss[3] == 3);
  CHECK(loss[8] == Approx(8.5));
  CHECK(out.arrays.at("accuracy_by_repeat").values[7] == 0);  // LM head on pairs
  CHECK(value(out, "no_copy_gap") == Approx(6.0 / 5 - 3));
  CHECK(value(out, "force_copy_gap_pair") == Approx(8.5 - 4));
}
