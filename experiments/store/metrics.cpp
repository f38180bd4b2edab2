// metrics.h5: one table of columns and row members for each series, written and read in the same order.
#include "experiments/store/metrics.h"

#include <algorithm>
#include <cstdlib>

namespace copylab {
namespace {

// A column of a series: a name, and the member of the row that it holds.
template <class Row>
struct Column {
  const char* name;
  int64_t Row::*integer;
  double Row::*real;
  const char* doc;
};

constexpr Column<TrainRow> kTrainColumns[] = {
    {"step", &TrainRow::step, nullptr, "updates done"},
    {"tokens", &TrainRow::tokens, nullptr, "input tokens seen"},
    {"loss", nullptr, &TrainRow::loss, "mean -log p of the labels, nats, before the update"},
    {"lr", nullptr, &TrainRow::lr, "learning rate of the update"},
    {"grad_norm", nullptr, &TrainRow::grad_norm, "norm of the whole gradient before clipping"},
    {"tokens_per_s", nullptr, &TrainRow::tokens_per_s, "input tokens per second since the row before"},
};
constexpr Column<ValidRow> kValidColumns[] = {
    {"step", &ValidRow::step, nullptr, "updates done"},
    {"tokens", &ValidRow::tokens, nullptr, "input tokens seen"},
    {"loss", nullptr, &ValidRow::loss, "mean -log p of the labels, nats"},
    {"accuracy", nullptr, &ValidRow::accuracy, "share of labels that are the most probable token"},
};

template <class Row, size_t N>
void write_series(h5::File& file, const std::string& group, const std::vector<Row>& rows,
                  const Column<Row> (&columns)[N]) {
  const h5::Extent shape{static_cast<int64_t>(rows.size())};
  for (const Column<Row>& column : columns) {
    const std::string name = group + "/" + column.name;
    if (column.integer) {
      std::vector<int64_t> values;
      for (const Row& row : rows) values.push_back(row.*column.integer);
      file.write<int64_t>(name, values, shape, {"step"});
    } else {
      std::vector<double> values;
      for (const Row& row : rows) values.push_back(row.*column.real);
      file.write<double>(name, values, shape, {"step"});
    }
    file.set_attribute(name, "doc", std::string(column.doc));
    if (column.name != std::string("step")) file.attach_scale(name, 0, group + "/step");
  }
}

template <class Row, size_t N>
std::vector<Row> read_series(const h5::File& file, const std::string& group,
                             const Column<Row> (&columns)[N]) {
  const h5::Extent shape = file.shape(group + "/step");
  expect(shape.size() == 1, "store", "{}: {}/step is not a series", file.path().string(), group);
  std::vector<Row> rows(shape[0]);
  for (const Column<Row>& column : columns) {
    const std::string name = group + "/" + column.name;
    if (column.integer) {
      std::vector<int64_t> values(rows.size());
      file.read_into(name, values.data(), shape);
      for (size_t i = 0; i < rows.size(); ++i) rows[i].*column.integer = values[i];
    } else {
      std::vector<double> values(rows.size());
      file.read_into(name, values.data(), shape);
      for (size_t i = 0; i < rows.size(); ++i) rows[i].*column.real = values[i];
    }
  }
  return rows;
}

h5::Attribute attribute_of(const Value& value) {
  return std::visit([](const auto& v) { return h5::Attribute(v); }, value);
}

}  // namespace

void write_output(h5::File& file, const std::string& group, const MeasureOutput& output) {
  file.make_group(group);
  for (const auto& [dim, values] : output.coordinates) file.write<double>(group + "/" + dim, values);
  for (const auto& [dim, names] : output.labels) file.write<std::string>(group + "/" + dim, names);
  for (const auto& [name, array] : output.arrays) {
    const std::string path = group + "/" + name;
    file.write<double>(path, array.values, array.shape, array.dims);
    file.set_attribute(path, "doc", array.doc);
    for (size_t axis = 0; axis < array.dims.size(); ++axis) {
      const std::string& dim = array.dims[axis];
      if (output.coordinates.count(dim) || output.labels.count(dim))
        file.attach_scale(path, static_cast<int>(axis), group + "/" + dim);
    }
  }
}

MeasureOutput read_output(const h5::File& file, const std::string& group) {
  MeasureOutput output;
  std::vector<std::string> names;
  for (const std::string& name : file.list(group)) {
    if (!file.is_group(group + "/" + name)) {
      names.push_back(name);
      continue;
    }
    for (const std::string& member : file.list(group + "/" + name)) names.push_back(name + "/" + member);
  }
  for (const std::string& name : names) {
    const std::string path = group + "/" + name;
    if (file.has_attribute(path, "doc")) {
      auto [values, shape] = file.read<double>(path);
      std::vector<std::string> dims;
      if (file.has_attribute(path, "dims")) dims = file.attribute_as<std::vector<std::string>>(path, "dims");
      output.array(name, std::move(values), std::move(shape), std::move(dims),
                   file.attribute_as<std::string>(path, "doc"));
    } else if (file.holds_text(path)) {
      output.label(name, file.read<std::string>(path).values);
    } else {
      output.coordinate(name, file.read<double>(path).values);
    }
  }
  return output;
}

void write_metrics(const std::filesystem::path& path, const Metrics& metrics) {
  h5::write_file(path, [&](h5::File& file) {
    for (const auto& [name, value] : metrics.provenance) file.set_attribute("/", name, value);
    file.set_attribute("/", "config", metrics.config);
    file.set_attribute("/", "run_id", metrics.run_id);
    file.set_attribute("/", "wall_s", metrics.wall_s);
    file.set_attribute("/", "resumes", metrics.resumes);
    file.make_group("config");
    for (const auto& [name, value] : metrics.settings.values())
      file.set_attribute("config", name, attribute_of(value));
    file.write_scalar<std::string>("status", metrics.status);
    write_series(file, "train", metrics.train, kTrainColumns);
    write_series(file, "eval/valid", metrics.valid, kValidColumns);
    for (const auto& [name, result] : metrics.results) {
      write_output(file, "eval/" + name, result.output);
      file.set_attribute("eval/" + name, "settings", result.settings);
    }
  });
}

Metrics read_metrics(const std::filesystem::path& path) {
  const h5::File file = h5::File::open(path);
  Metrics metrics;
  for (const std::string& name : file.attributes("/")) {
    if (name == "config")
      metrics.config = file.attribute_as<std::string>("/", name);
    else if (name == "run_id")
      metrics.run_id = file.attribute_as<std::string>("/", name);
    else if (name == "wall_s")
      metrics.wall_s = file.attribute_as<double>("/", name);
    else if (name == "resumes")
      metrics.resumes = file.attribute_as<std::vector<std::string>>("/", name);
    else
      metrics.provenance[name] = file.attribute("/", name);
  }
  metrics.status = file.read_scalar<std::string>("status");
  metrics.train = read_series(file, "train", kTrainColumns);
  metrics.valid = read_series(file, "eval/valid", kValidColumns);
  for (const std::string& name : file.list("eval")) {
    if (name == "valid") continue;
    metrics.results[name] = {read_output(file, "eval/" + name),
                             file.attribute_as<std::string>("eval/" + name, "settings")};
  }
  return metrics;
}

namespace {

// Where `label` stands among the names or values of an axis of a result; nothing if it does not.
std::optional<size_t> find_on_axis(const h5::File& file, const std::string& axis, const std::string& label) {
  if (!file.has(axis)) return std::nullopt;
  if (file.holds_text(axis)) {
    const std::vector<std::string> names = file.read<std::string>(axis).values;
    const auto it = std::find(names.begin(), names.end(), label);
    if (it == names.end()) return std::nullopt;
    return it - names.begin();
  }
  const std::vector<double> values = file.read<double>(axis).values;
  char* end = nullptr;
  const double wanted = std::strtod(label.c_str(), &end);
  if (end == label.c_str() || *end != 0) return std::nullopt;
  const auto it = std::find(values.begin(), values.end(), wanted);
  if (it == values.end()) return std::nullopt;
  return it - values.begin();
}

}  // namespace

std::optional<double> read_metric(const h5::File& file, const std::string& name) {
  const size_t bracket = name.find('[');
  const std::string address = name.substr(0, bracket);
  const std::string path = address.rfind("train/", 0) == 0 ? address : "eval/" + address;
  if (!file.has(path) || file.is_group(path) || file.holds_text(path) || file.holds_integers(path))
    return std::nullopt;
  const std::vector<double> values = file.read<double>(path).values;
  if (values.empty()) return std::nullopt;
  if (bracket == std::string::npos) {
    const bool series = path.rfind("train/", 0) == 0 || path.rfind("eval/valid/", 0) == 0;
    return series || file.shape(path).empty() ? std::optional<double>(values.back()) : std::nullopt;
  }
  if (name.back() != ']' || file.shape(path).size() != 1 || !file.has_attribute(path, "dims"))
    return std::nullopt;
  const std::string label = name.substr(bracket + 1, name.size() - bracket - 2);
  const std::string dim = file.attribute_as<std::vector<std::string>>(path, "dims").front();
  const auto at = find_on_axis(file, path.substr(0, path.rfind('/') + 1) + dim, label);
  return at ? std::optional<double>(values[*at]) : std::nullopt;
}

}  // namespace copylab
