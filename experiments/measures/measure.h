// Measure: something computed on a finished model and stored under /eval/<measure>/ of its metrics file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/nn/model.h"
#include "experiments/config/error.h"
#include "tasks/task.h"

namespace copylab {

struct SplitCache;

// Float64 operations for the time that a float32 one takes.
inline constexpr double kDouble = 2;

struct MeasureInput {
  nn::Model& model;    // holds the weights to measure; to plan, it is only declared
  nn::Model* initial;  // the same model at step 0, or null when the run kept none
  const Task& task;
  const Settings& settings;  // the run's resolved settings, with "measure.<name>.…" of this measure
  const Backend& backend;
  uint64_t seed;
  SplitCache* cache = nullptr;  // of these weights, see scored_split.h; null: nothing is kept

  // Floating-point operations of forward passes over this many sequences of the task.
  double pass_flops(double sequences) const {
    const int64_t length = task.length();
    return sequences * static_cast<double>(length) * model.flops_per_token(length, task.lanes() > 0);
  }
};

// What a measure found: named arrays with named axes.
class MeasureOutput {
 public:
  struct Array {
    std::vector<double> values;     // row-major
    std::vector<int64_t> shape;     // empty: one number
    std::vector<std::string> dims;  // a name for each axis
    std::string doc;                // one line: meaning and unit
  };
  void scalar(const std::string& name, double value, const std::string& doc) {
    arrays[name] = {{value}, {}, {}, doc};
  }
  void array(const std::string& name, std::vector<double> values, std::vector<int64_t> shape,
             std::vector<std::string> dims, const std::string& doc) {
    arrays[name] = {std::move(values), std::move(shape), std::move(dims), doc};
  }
  // Values along an axis, e.g. coordinate("position", {0, 1, 2}).
  void coordinate(const std::string& dim, std::vector<double> values) {
    coordinates[dim] = std::move(values);
  }
  // Names along an axis, e.g. label("slice", {"near", "far"}).
  void label(const std::string& dim, std::vector<std::string> names) { labels[dim] = std::move(names); }

  std::map<std::string, Array> arrays;
  std::map<std::string, std::vector<double>> coordinates;
  std::map<std::string, std::vector<std::string>> labels;
};

// A line of the registry (experiments/measures/registry.cpp).
struct MeasureEntry {
  const char* name;
  const char* doc;
  std::vector<Field> (*fields)();  // "measure.<name>.…"
  void (*run)(const MeasureInput& in, MeasureOutput& out);
  // Before anything is trained or measured: floating-point operations of one call, roughly (float64 ones
  // counted kDouble times). Throws ConfigError for settings that cannot go with the run. Null: always fine,
  // costs nothing.
  double (*plan)(const MeasureInput& in) = nullptr;
  // Completes "measure.<name>.…" as TaskEntry::complete does the task's settings. Null: nothing to complete.
  void (*complete)(Settings& settings) = nullptr;
};

const std::vector<MeasureEntry>& measure_registry();
const MeasureEntry& find_measure(const std::string& name);

}  // namespace copylab
