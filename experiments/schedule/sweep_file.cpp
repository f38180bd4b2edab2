// Writing and reading of sweep files.
#include "experiments/schedule/sweep_file.h"

#include <fstream>

#include "core/io/hdf5.h"
#include "experiments/config/values.h"

namespace copylab {
namespace fs = std::filesystem;
namespace {

template <class T, class Get>
std::vector<T> column(const std::vector<SweepRow>& rows, Get get) {
  std::vector<T> out;
  for (const SweepRow& row : rows) out.push_back(static_cast<T>(get(row)));
  return out;
}

// A swept key's values with the type of the field: numbers as numbers, flags as 0 and 1, all else as text.
void write_coordinate(h5::File& file, const std::string& name, const std::vector<Cell>& cells, size_t index) {
  const auto write = [&]<class T>(T, auto get) {
    std::vector<T> values;
    for (const Cell& cell : cells) values.push_back(get(cell.coordinates[index].second));
    file.write(name, values);
  };
  const Value& first = cells.front().coordinates[index].second;
  if (std::holds_alternative<int64_t>(first)) {
    write(int64_t{}, [](const Value& v) { return std::get<int64_t>(v); });
  } else if (std::holds_alternative<double>(first)) {
    write(double{}, [](const Value& v) { return std::get<double>(v); });
  } else if (std::holds_alternative<bool>(first)) {
    write(uint8_t{}, [](const Value& v) { return static_cast<uint8_t>(std::get<bool>(v)); });
  } else {
    write(std::string{}, [](const Value& v) { return format_value(v); });
  }
}

std::vector<std::string> coordinate_text(const h5::File& file, const std::string& name) {
  if (file.holds_text(name)) return file.read<std::string>(name).values;
  std::vector<std::string> out;
  if (file.holds_integers(name)) {
    for (const int64_t value : file.read<int64_t>(name).values) out.push_back(format_value(value));
  } else {
    for (const double value : file.read<double>(name).values) out.push_back(format_value(value));
  }
  return out;
}

}  // namespace

fs::path sweep_path(const fs::path& root, const Experiment& experiment) {
  return root / experiment.name / ("sweep-" + experiment.index() + ".h5");
}

void write_sweep(const fs::path& root, const Expansion& expansion, const std::vector<Cell>& cells,
                 const std::vector<SweepRow>& rows, const std::string& command) {
  const Experiment& e = expansion.experiment();
  expect(rows.size() == cells.size() && !rows.empty(), "sweep", "a row for each of {} cells: got {}",
         cells.size(), rows.size());
  fs::create_directories(root / e.name);
  h5::write_file(sweep_path(root, e), [&](h5::File& file) {
    file.set_attribute("/", "experiment", e.name);
    file.set_attribute("/", "preset", e.index());
    file.set_attribute("/", "title", e.title);
    file.set_attribute("/", "command", command);
    file.set_attribute("/", "claims", e.claims);
    file.set_attribute("/", "config", e.text);
    file.set_attribute("/", "select_over", e.select ? e.select->over : "");
    file.make_group("cells");
    file.write("cells/run", column<std::string>(rows, [](const SweepRow& r) { return r.run; }));
    file.write("cells/arm", column<std::string>(rows, [](const SweepRow& r) { return r.arm; }));
    file.write("cells/seed", column<int64_t>(rows, [](const SweepRow& r) { return r.seed; }));
    file.write("cells/status", column<std::string>(rows, [](const SweepRow& r) { return r.status; }));
    file.write("cells/tune", column<uint8_t>(rows, [](const SweepRow& r) { return r.tune; }));
    file.write("cells/best", column<uint8_t>(rows, [](const SweepRow& r) { return r.best; }));
    file.write("cells/same", column<uint8_t>(rows, [](const SweepRow& r) { return r.same; }));
    const std::vector<std::string> keys = expansion.coordinates();
    for (size_t i = 0; i < keys.size(); ++i) write_coordinate(file, "cells/" + keys[i], cells, i);
  });
  h5::write_text(sweep_path(root, e).replace_extension(".yaml"), "# " + command + "\n" + e.text);
}

Sweep read_sweep(const fs::path& path) {
  const h5::File file = h5::File::open(path);
  Sweep sweep;
  sweep.experiment = file.attribute_as<std::string>("/", "experiment");
  sweep.preset = file.attribute_as<std::string>("/", "preset");
  sweep.command = file.attribute_as<std::string>("/", "command");
  const auto runs = file.read<std::string>("cells/run").values;
  const auto arms = file.read<std::string>("cells/arm").values;
  const auto seeds = file.read<int64_t>("cells/seed").values;
  const auto states = file.read<std::string>("cells/status").values;
  const auto tune = file.read<uint8_t>("cells/tune").values;
  const auto best = file.read<uint8_t>("cells/best").values;
  const auto same = file.read<uint8_t>("cells/same").values;
  for (size_t i = 0; i < runs.size(); ++i) {
    sweep.rows.push_back({runs[i],
                          arms.at(i),
                          seeds.at(i),
                          states.at(i),
                          tune.at(i) != 0,
                          best.at(i) != 0,
                          same.at(i) != 0,
                          {}});
  }
  const std::string selected = file.attribute_as<std::string>("/", "select_over");
  for (const std::string& key : file.list("cells")) {
    if (key.find('.') == std::string::npos || key == selected) continue;  // all swept keys have a section
    const std::vector<std::string> values = coordinate_text(file, "cells/" + key);
    for (size_t i = 0; i < values.size(); ++i) sweep.rows.at(i).coordinates[key] = values[i];
  }
  return sweep;
}

}  // namespace copylab
