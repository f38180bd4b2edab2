// pointer_time: the pointer op alone, on random states of the model's width, with windows taken in turns.
#include "experiments/measures/pointer_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/ops/pointer.h"
#include "core/random.h"
#include "experiments/clock.h"

namespace copylab {

double fitted_exponent(const std::vector<double>& x, const std::vector<double>& y) {
  double mean_x = 0, mean_y = 0, above = 0, below = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += std::log(x[i]) / static_cast<double>(x.size());
    mean_y += std::log(y[i]) / static_cast<double>(x.size());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = std::log(x[i]) - mean_x;
    above += dx * (std::log(y[i]) - mean_y);
    below += dx * dx;
  }
  return above / below;
}

namespace {

std::vector<Field> fields() {
  return {
      {"measure.pointer_time.windows", std::vector<int64_t>{100, 200, 400, 800},
       "windows L, positions that the pointer sees", 1, 1 << 20},
      {"measure.pointer_time.positions", int64_t{64}, "positions T of a sequence, each with a whole window",
       1, 1 << 20},
      {"measure.pointer_time.rows", int64_t{4}, "sequences", 1, 1 << 20},
      {"measure.pointer_time.repeats", int64_t{9}, "times that each window is timed, in turns", 1, 10000},
  };
}

const std::vector<int64_t>& windows_of(const MeasureInput& in) {
  const std::vector<int64_t>& windows = in.settings.integers("measure.pointer_time.windows");
  expect_config(std::set<int64_t>(windows.begin(), windows.end()).size() > 1,
                "measure.pointer_time.windows: at least two different windows expected");
  return windows;
}

// Seconds of one forward pass over rows·positions positions, all of whose windows are full.
double seconds_of(const MeasureInput& in, Tape& tape, int64_t window) {
  const int64_t rows = in.settings.integer("measure.pointer_time.rows");
  const int64_t length = in.settings.integer("measure.pointer_time.positions");
  const int64_t keys = window - 1 + length, dim = in.model.dim();
  const Random random(in.seed, "pointer_time");
  const auto states = [&](int64_t n, uint64_t first) {
    std::vector<float> values(rows * n * dim);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(random.normal(first + i) / std::sqrt(static_cast<double>(dim)));
    return values;
  };
  const auto ids = [&](int64_t n) {
    std::vector<int32_t> values(rows * n);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<int32_t>(random.below(i, in.task.vocab()));
    return values;
  };
  tape.begin({.record = false, .training = false});
  const Tensor q = tape.constant(states(length, 0), {rows, length, dim});
  const Tensor k = tape.constant(states(keys, uint64_t{1} << 40), {rows, keys, dim});
  const Tensor sink = tape.constant(std::vector<float>(rows * length), {rows, length});
  const Tensor tokens = tape.constant(ids(keys), {rows, keys});
  const Tensor targets = tape.constant(ids(length), {rows, length});
  ops::PointerOptions options;
  options.window = window;
  options.copy_self = true;
  const Clock::time_point begin = Clock::now();
  const ops::PointerResult result = ops::pointer(tape, q, k, sink, tokens, targets, options);
  to_host<float>(in.backend, result.log_copy);  // by then it has been computed, whatever the backend
  return seconds_since(begin);
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const std::vector<int64_t>& windows = windows_of(in);
  const int64_t repeats = in.settings.integer("measure.pointer_time.repeats");
  std::vector<double> least(windows.size(), std::numeric_limits<double>::infinity());
  Tape tape(in.backend);
  for (int64_t i = -1; i < repeats; ++i)  // the first round claims memory and warms caches
    for (size_t w = 0; w < windows.size(); ++w) {
      const double seconds = seconds_of(in, tape, windows[w]);
      if (i >= 0) least[w] = std::min(least[w], seconds);
    }
  const double positions = static_cast<double>(in.settings.integer("measure.pointer_time.rows") *
                                               in.settings.integer("measure.pointer_time.positions"));
  const std::vector<double> x(windows.begin(), windows.end());
  out.scalar("exponent", fitted_exponent(x, least), "e of the fit time = c·L^e over the windows L");
  for (double& seconds : least) seconds *= 1e6 / positions;
  out.coordinate("window", x);
  out.array("microseconds", least, {static_cast<int64_t>(x.size())}, {"window"},
            "shortest forward pass of the pointer alone, per position, microseconds");
}

double plan(const MeasureInput& in) {
  double keys = 0;
  for (const int64_t window : windows_of(in)) keys += static_cast<double>(window);
  const int64_t passes = in.settings.integer("measure.pointer_time.repeats") + 1;
  return 2.0 * keys *
         static_cast<double>(in.model.dim() * passes * in.settings.integer("measure.pointer_time.rows") *
                             in.settings.integer("measure.pointer_time.positions"));
}

}  // namespace

const MeasureEntry pointer_time_measure = {
    "pointer_time", "time of the pointer alone against its window, and the exponent (P10, P18)", fields, run,
    plan};

}  // namespace copylab
