// The list of tasks; a new task adds its line here.
#include <fmt/ranges.h>

#include <charconv>
#include <sstream>

#include "core/error.h"
#include "core/nearest.h"
#include "tasks/bracket_copy.h"
#include "tasks/copy_stream.h"
#include "tasks/induction.h"
#include "tasks/list_recall.h"
#include "tasks/parity.h"
#include "tasks/recall.h"
#include "tasks/segment_counting.h"
#include "tasks/spamlang.h"
#include "tasks/task.h"
#include "tasks/text/text.h"

namespace copylab {

const std::vector<TaskEntry>& task_registry() {
  static const std::vector<TaskEntry> entries = {
      spamlang_task,    induction_task,        recall_task, copy_stream_task,  text_task,
      list_recall_task, segment_counting_task, parity_task, bracket_copy_task,
  };
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

std::vector<int32_t> Task::tokens_of(const std::string& prompt) const {
  std::vector<int32_t> ids;
  std::istringstream words(prompt);
  for (std::string word; words >> word;) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    expect(error == std::errc() && end == word.data() + word.size() && id >= 0 && id < vocab(), "prompt",
           "ids from 0 to {} separated by blanks expected: got '{}'", vocab() - 1, word);
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::string Task::text_of(const std::vector<int32_t>& tokens) const {
  return fmt::format("{}", fmt::join(tokens, " "));
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
