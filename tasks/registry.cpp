// The list of tasks; a new task adds its line here.
#include "core/error.h"
#include "core/nearest.h"
#include "tasks/induction.h"
#include "tasks/recall.h"
#include "tasks/spamlang.h"
#include "tasks/task.h"
#include "tasks/text/text.h"

namespace copylab {

const std::vector<TaskEntry>& task_registry() {
  static const std::vector<TaskEntry> entries = {spamlang_task, induction_task, recall_task, text_task};
  return entries;
}

const TaskEntry& find_task(const std::string& name) {
  std::vector<std::string> names;
  for (const TaskEntry& entry : task_registry()) {
    if (name == entry.name) return entry;
    names.push_back(entry.name);
  }
  throw Error("[task.name] a registered task expected: got '" + name + "'" + did_you_mean(name, names));
}

Batch blank_batch(int64_t rows, int64_t length) {
  Batch b;
  b.rows = rows;
  b.length = length;
  b.tokens.assign(rows * length, 0);
  b.targets.assign(rows * length, -1);
  b.slice.assign(rows * length, 0);
  return b;
}

Settings task_settings(const TaskEntry& entry, const std::vector<std::pair<std::string, Value>>& changes) {
  Settings settings;
  settings.set("task.name", std::string(entry.name));
  for (const Field& field : entry.fields()) settings.set(field.path, field.fallback);
  for (const auto& [path, value] : changes) settings.set(path, value);
  return settings;
}

const char* name_of(Split split) {
  return split == Split::train ? "train" : split == Split::valid ? "valid" : "test";
}

}  // namespace copylab
