// Schema: every key that a configuration may hold, gathered from the parts of the program that read them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/settings.h"

namespace copylab {

// A task, head or measure with the fields that exist only when it is chosen.
struct Choice {
  std::string name;
  std::string doc;
  int version = 0;  // tasks: part of the run id
  std::vector<Field> fields;
  void (*complete)(Settings& settings) = nullptr;  // see TaskEntry::complete
};

// All keys of all choices. The program has one (installed()); tests make their own.
struct Catalogue {
  std::vector<Field> common;                   // run.*, train.*, eval.*, model.*
  std::vector<Choice> tasks, heads, measures;  // task.*, head.*, measure.NAME.*
  std::map<std::string, std::vector<std::pair<std::string, Value>>>
      presets;  // values by name of model.preset

  static const Catalogue& installed();

  const Choice* task(const std::string& name) const;
  const Choice* head(const std::string& name) const;
  const Choice* measure(const std::string& name) const;
  Field task_field() const;  // task.name
  Field head_field() const;  // head.kind

  // Every field of every choice, with "task.name=…" and the like where it needs a choice, else "".
  std::vector<std::pair<Field, std::string>> all() const;
};

// The keys of one configuration: the common ones and those of its task, head and measures.
class Schema {
 public:
  Schema(const Catalogue& catalogue, std::string task, std::string head, std::vector<std::string> measures);

  const std::vector<Field>& fields() const { return fields_; }
  const Field* find(const std::string& path) const;
  // Throws ConfigError for a path that is not here: whose it is, where it belongs, or what was meant.
  const Field& at(const std::string& path, const std::string& where) const;

 private:
  [[noreturn]] void unknown(const std::string& path, const std::string& where) const;

  const Catalogue& catalogue_;
  std::string task_, head_;
  std::vector<Field> fields_;
};

}  // namespace copylab
