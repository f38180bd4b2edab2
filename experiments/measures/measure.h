// Measure: something computed on a finished model and stored under /eval/<measure>/ of its metrics file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/nn/model.h"
#include "tasks/task.h"

namespace copylab {

struct MeasureInput {
  nn::Model& model;    // holds the weights to measure
  nn::Model* initial;  // the same model at step 0, or null when the run kept none
  const Task& task;
  const Settings& settings;  // the run's resolved settings, with "measure.<name>.…" of this measure
  const Backend& backend;
  uint64_t seed;
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
};

const std::vector<MeasureEntry>& measure_registry();
const MeasureEntry& find_measure(const std::string& name);

}  // namespace copylab
