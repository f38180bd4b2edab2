// TaskCells: tasks from settings that are checked against what the task's entry allows.
#include "experiments/measures/task_cells.h"

#include <algorithm>

#include "experiments/config/error.h"
#include "experiments/config/run_fields.h"

namespace copylab {
namespace {

std::vector<std::string> values_of(const MeasureInput& in, const char* measure, const std::string& key,
                                   const std::string& list) {
  const bool has = in.settings.has(key);
  expect_config(has || list.empty(), "[{}] a task with {} expected: got task.name={}", measure, key,
                in.settings.text("task.name"));
  if (list.empty()) return {has ? in.settings.text(key) : std::string()};
  const std::vector<std::string> values = measure_names(list);
  for (const Field& field : find_task(in.settings.text("task.name")).fields())
    for (const std::string& value : values)
      expect_config(field.path != key ||
                        std::find(field.choices.begin(), field.choices.end(), value) != field.choices.end(),
                    "[{}] {}: one of {} expected: got {}", measure, key, fmt::join(field.choices, ", "),
                    value);
  return values;
}

std::unique_ptr<Task> fitting_task(const Settings& settings) {
  const TaskEntry& entry = find_task(settings.text("task.name"));
  try {
    return entry.make(settings);
  } catch (const Error&) {
    Settings roomy = settings;  // any other mistake is one at every length
    roomy.set("task.length", int64_t{1} << 16);
    entry.make(roomy);
    return nullptr;
  }
}

}  // namespace

TaskCells::TaskCells(const MeasureInput& in, const char* measure, const std::string& level_list,
                     const std::string& pause_list, const std::vector<int64_t>& at_lengths)
    : lengths(at_lengths) {
  expect_config(in.settings.has("task.length"), "[{}] a task with task.length expected: got task.name={}",
                measure, in.settings.text("task.name"));
  if (lengths.empty()) lengths = {in.settings.integer("task.length")};
  levels = values_of(in, measure, "task.level", level_list);
  pauses = values_of(in, measure, "task.pause", pause_list);
  for (const std::string& level : levels)
    for (const std::string& pause : pauses)
      for (const int64_t length : lengths) {
        Settings settings = in.settings;
        settings.set("task.length", length);
        if (!level.empty()) settings.set("task.level", level);
        if (!pause.empty()) settings.set("task.pause", pause);
        Cell cell{length, fitting_task(settings), std::to_string(length)};
        if (pauses.size() > 1) cell.name = pause + "_" + cell.name;
        if (levels.size() > 1) cell.name = level + "_" + cell.name;
        expect_config(!cell.task || cell.task->vocab() == in.task.vocab(),
                      "[{}] a task of the same {} ids expected: got {}", measure, in.task.vocab(),
                      cell.task ? cell.task->vocab() : 0);
        cells.push_back(std::move(cell));
      }
}

int64_t TaskCells::longest() const {
  return *std::max_element(lengths.begin(), lengths.end());
}

double TaskCells::flops(const MeasureInput& in, int64_t sequences) const {
  double sum = 0;
  for (const Cell& cell : cells)
    if (cell.task)
      sum += static_cast<double>(sequences * cell.length) * in.model.flops_per_token(cell.length);
  return sum;
}

std::unique_ptr<nn::Model> longer_model(const MeasureInput& in, const char* measure, int64_t positions,
                                        bool allocated) {
  const nn::Parameters& own = in.model.parameters();
  auto model = std::make_unique<nn::Model>(in.backend, own.dtype(), in.settings, in.task.vocab(),
                                           std::max(positions, in.task.length()));
  const nn::Parameters& longer = model->parameters();
  for (size_t i = 0; i < own.entries().size(); ++i) {
    const auto& entry = own.entries()[i];
    expect_config(i < longer.entries().size() && longer.entries()[i].name == entry.name &&
                      longer.entries()[i].shape == entry.shape,
                  "[{}] a model that can read {} positions expected: the shape of {} depends on their number",
                  measure, positions, entry.name);
  }
  if (!allocated) return model;
  model->allocate();
  std::vector<char> weights(static_cast<size_t>(own.flat_size()) * size_of(own.dtype()));
  in.backend.copy_out(weights.data(), own.flat_data(), weights.size());
  in.backend.copy_in(longer.flat_data(), weights.data(), weights.size());
  return model;
}

}  // namespace copylab
