// pointer_distance and pointer_time on cases made by hand.
#include "experiments/measures/pointer_distance.h"

#include "experiments/check/check_settings.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/measures/pointer_time.h"
#include "tests/catch.h"

using namespace copylab;

namespace {

PointerTrace blank(std::vector<int32_t> tokens, std::vector<int32_t> targets) {
  PointerTrace trace;
  const size_t n = tokens.size();
  trace.tokens = std::move(tokens);
  trace.targets = std::move(targets);
  trace.segment.assign(n, 0);
  trace.gate.assign(n, 1.0);
  trace.sink.assign(n, 0.0);
  trace.weights = Matrix::Zero(n, n);
  return trace;
}

MeasureOutput report(const PointerDistance& distance) {
  MeasureOutput out;
  distance.report(out);
  return out;
}

double value(const MeasureOutput& out, const std::string& name, size_t i = 0) {
  return out.arrays.at(name).values.at(i);
}

}  // namespace

TEST_CASE("a pointer's mass by tenths of its window", "[pointer_distance]") {
  // Window of ten positions; position 9 has ten, position 3 has only four.
  PointerTrace trace = blank({7, 1, 2, 7, 1, 2, 3, 4, 5, 6}, {-1, -1, -1, 1, -1, -1, -1, -1, -1, 7});
  trace.gate[9] = 0.5;
  trace.sink[9] = 0.2;
  trace.weights.row(9) << 0.4, 0, 0, 0.3, 0, 0, 0, 0, 0, 0.1;  // target 7 is at distances 10 and 7
  trace.gate[3] = 1.0;
  trace.sink[3] = 0.5;
  trace.weights.row(3) << 0, 0.1, 0, 0.4, 0, 0, 0, 0, 0, 0;
  PointerDistance distance({.window = 10}, 10);
  distance.add(trace);
  const MeasureOutput out = report(distance);
  CHECK(value(out, "labels") == 2);
  CHECK(value(out, "g") == Approx((0.6 + 0.5) / 2));
  CHECK(value(out, "g_copyable") == Approx((0.6 + 0.5) / 2));
  CHECK(std::isnan(value(out, "g_new")));
  CHECK(value(out, "self_mass") == Approx((0.1 / 0.8 + 0.4 / 0.5) / 2));
  CHECK(value(out, "self_top") == 0.5);
  CHECK(out.coordinates.at("distance") == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  // Of full windows there is one; all of its mass is halved by the gate.
  const std::vector<double> mass = {0.05, 0, 0, 0, 0, 0, 0.15, 0, 0, 0.2};
  for (size_t i = 0; i < 10; ++i) {
    CHECK(value(out, "mass", i) == Approx(mass[i]));
    CHECK(value(out, "right_mass", i) == Approx(i == 6 ? 0.15 : i == 9 ? 0.2 : 0.0));
    CHECK(value(out, "even_mass", i) == Approx(i == 6 || i == 9 ? 0.04 : 0.0));
    CHECK(value(out, "tops", i) == (i == 9 ? 1 : 0));
  }
  CHECK(value(out, "right_mass_last_tenth") == Approx(0.2 / 0.35));
  CHECK(value(out, "even_mass_last_tenth") == Approx(0.5));
  CHECK(value(out, "farthest") == 10);
}

TEST_CASE("an unbounded pointer counts every label; without a pointer there is nothing to tell",
          "[pointer_distance]") {
  PointerTrace trace = blank({7, 1, 2}, {-1, 1, 9});
  trace.sink[2] = 0.7;
  trace.weights.row(1) << 0.25, 0.75, 0;
  trace.weights.row(2) << 0.1, 0.1, 0.1;
  PointerDistance distance({}, 20);  // parts of two positions
  distance.add(trace);
  MeasureOutput out = report(distance);
  CHECK(value(out, "mass", 0) == Approx((0.75 + 0.25 + 0.1 + 0.1) / 2));
  CHECK(value(out, "mass", 1) == Approx(0.1 / 2));
  CHECK(value(out, "g_copyable") == Approx(0.0).margin(1e-12));
  CHECK(value(out, "g_new") == Approx(0.7));

  trace.gate.clear();
  PointerDistance none({}, 20);
  none.add(trace);
  out = report(none);
  CHECK(out.arrays.size() == 1);
}

TEST_CASE("the current position takes most of the pointer where the query is the state itself",
          "[pointer_distance][measures]") {
  const auto measured = [](const std::string& projection) {
    const Settings settings = check_settings(
        {"run.measures=pointer_distance", "task.name=text", "task.corpus=tinyshakespeare", "task.level=word",
         "task.vocab=300", "task.length=20", "task.lanes=3", "train.batch=3", "train.accumulate=1",
         "model.kind=lstm", "model.ffn=0", "model.dim=32", "model.layers=1", "model.init_range=1",
         "head.kind=pointer_sentinel", "head.window=30", "head.projection=" + projection,
         "measure.pointer_distance.sequences=12"});
    const auto task = find_task("text").make(settings);
    const auto model = make_model(settings, *task, cpu_backend());
    model->allocate();
    model->initialise(2);
    MeasureOutput out;
    pointer_distance_measure.run({*model, nullptr, *task, settings, cpu_backend(), 2}, out);
    return out;
  };
  // h·h is the largest product of h_t with any state of equal norm (papers P20).
  const MeasureOutput none = measured("none"), tanh = measured("tanh");
  CHECK(value(none, "self_top") > 0.8);
  CHECK(value(tanh, "self_top") < 0.5);
  CHECK(value(none, "labels") == 12 * 20);
  double mass = 0;
  for (size_t i = 0; i < 10; ++i) mass += value(tanh, "mass", i);
  CHECK(mass > 0);
  CHECK(mass < 1);
}

TEST_CASE("the exponent of a power is found, and a pointer's time is measured for every window",
          "[pointer_time][measures]") {
  CHECK(fitted_exponent({1, 2, 4, 8}, {3, 12, 48, 192}) == Approx(2.0));
  CHECK(fitted_exponent({10, 100}, {5, 5}) == Approx(0.0).margin(1e-12));

  const std::vector<std::string> changes = {"run.measures=pointer_time",
                                            "model.dim=8",
                                            "model.heads=2",
                                            "model.kv_heads=2",
                                            "measure.pointer_time.repeats=2",
                                            "measure.pointer_time.positions=8"};
  const auto measured = [&](const std::string& windows) {
    std::vector<std::string> all = changes;
    all.push_back("measure.pointer_time.windows=" + windows);
    const Settings settings = check_settings(all);
    const auto task = find_task("spamlang").make(settings);
    const auto model = make_model(settings, *task, cpu_backend());
    MeasureOutput out;
    pointer_time_measure.run({*model, nullptr, *task, settings, cpu_backend(), 1}, out);
    return out;
  };
  const MeasureOutput out = measured("[16,4096]");
  CHECK(out.coordinates.at("window") == std::vector<double>{16, 4096});
  const std::vector<double> times = out.arrays.at("microseconds").values;
  CHECK(times[0] > 0);
  CHECK(times[1] > times[0]);
  CHECK(value(out, "exponent") == Approx(std::log(times[1] / times[0]) / std::log(256.0)));
  CHECK_THROWS_WITH(measured("[16]"), Catch::Contains("at least two different windows expected"));
}
