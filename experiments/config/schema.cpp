// Gathering of fields and the messages for keys that do not exist.
#include "experiments/config/schema.h"

#include <algorithm>
#include <set>

#include "core/nearest.h"
#include "core/nn/model.h"
#include "experiments/config/error.h"
#include "experiments/config/run_fields.h"
#include "experiments/measures/measure.h"
#include "experiments/train/train_fields.h"
#include "tasks/task.h"

namespace copylab {
namespace {

const Choice* find_choice(const std::vector<Choice>& choices, const std::string& name) {
  for (const Choice& choice : choices) {
    if (choice.name == name) return &choice;
  }
  return nullptr;
}

std::vector<std::string> names_of(const std::vector<Choice>& choices) {
  std::vector<std::string> names;
  for (const Choice& choice : choices) names.push_back(choice.name);
  return names;
}

void append(std::vector<Field>& to, const std::vector<Field>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

Catalogue make_installed() {
  Catalogue catalogue;
  append(catalogue.common, run_fields());
  append(catalogue.common, train_fields());
  append(catalogue.common, nn::model_fields());
  for (const auto& [name, values] : nn::model_presets()) catalogue.presets[name] = values;
  for (const TaskEntry& entry : task_registry()) {
    catalogue.tasks.push_back({entry.name, entry.doc, entry.version, entry.fields(), entry.complete});
  }
  for (const nn::HeadEntry& entry : nn::head_registry()) {
    catalogue.heads.push_back({entry.name, entry.doc, 0, entry.fields()});
  }
  for (const MeasureEntry& entry : measure_registry()) {
    std::vector<Field> fields = entry.fields();
    fields.push_back({.path = fmt::format("measure.{}.over_training", entry.name),
                      .fallback = false,
                      .doc = "also measure every checkpoint that train.keep kept",
                      .later = true});
    catalogue.measures.push_back({entry.name, entry.doc, 0, std::move(fields), entry.complete});
  }
  return catalogue;
}

}  // namespace

const Catalogue& Catalogue::installed() {
  static const Catalogue catalogue = make_installed();
  return catalogue;
}

const Choice* Catalogue::task(const std::string& name) const {
  return find_choice(tasks, name);
}
const Choice* Catalogue::head(const std::string& name) const {
  return find_choice(heads, name);
}
const Choice* Catalogue::measure(const std::string& name) const {
  return find_choice(measures, name);
}

Field Catalogue::task_field() const {
  return {.path = "task.name",
          .fallback = std::string(),
          .doc = "what the sequences are",
          .choices = names_of(tasks)};
}

Field Catalogue::head_field() const {
  return {.path = "head.kind",
          .fallback = std::string("vanilla"),
          .doc = "the output layer",
          .choices = names_of(heads)};
}

std::vector<std::pair<Field, std::string>> Catalogue::all() const {
  std::vector<std::pair<Field, std::string>> out;
  for (const Field& field : common) out.emplace_back(field, "");
  out.emplace_back(task_field(), "");
  out.emplace_back(head_field(), "");
  for (const Choice& choice : heads) {
    for (const Field& field : choice.fields) out.emplace_back(field, "head.kind=" + choice.name);
  }
  for (const Choice& choice : tasks) {
    for (const Field& field : choice.fields) out.emplace_back(field, "task.name=" + choice.name);
  }
  for (const Choice& choice : measures) {
    for (const Field& field : choice.fields) out.emplace_back(field, "measure " + choice.name);
  }
  return out;
}

Schema::Schema(const Catalogue& catalogue, std::string task, std::string head,
               std::vector<std::string> measures)
    : catalogue_(catalogue), task_(std::move(task)), head_(std::move(head)), fields_(catalogue.common) {
  fields_.push_back(catalogue.task_field());
  fields_.push_back(catalogue.head_field());
  if (const Choice* choice = catalogue.task(task_)) append(fields_, choice->fields);
  if (const Choice* choice = catalogue.head(head_)) append(fields_, choice->fields);
  for (const std::string& name : measures) {
    if (const Choice* choice = catalogue.measure(name)) append(fields_, choice->fields);
  }
  std::set<std::string> seen;
  for (const Field& field : fields_) {
    expect(seen.insert(field.path).second, "schema", "{} is declared twice", field.path);
  }
}

const Field* Schema::find(const std::string& path) const {
  for (const Field& field : fields_) {
    if (field.path == path) return &field;
  }
  return nullptr;
}

const Field& Schema::at(const std::string& path, const std::string& where) const {
  if (const Field* field = find(path)) return *field;
  unknown(path, where);
}

void Schema::unknown(const std::string& path, const std::string& where) const {
  const std::string at = where.empty() ? "" : where + ": ";
  const auto all = catalogue_.all();

  std::vector<std::string> owners;  // another head, task or measure has it
  for (const auto& [field, owner] : all) {
    if (field.path == path && !owner.empty()) owners.push_back(owner);
  }
  if (!owners.empty()) {
    const std::string have = path.starts_with("head.")   ? fmt::format("head.kind is {}", head_)
                             : path.starts_with("task.") ? fmt::format("task.name is {}", task_)
                                                         : std::string("this measure is not in run.measures");
    throw ConfigError(fmt::format("{}{} belongs to {}, but {}", at, path, fmt::join(owners, " or "), have));
  }

  std::vector<std::string> inside;  // it is a section
  for (const Field& field : fields_) {
    if (field.path.starts_with(path + ".")) inside.push_back(field.path);
  }
  if (!inside.empty()) {
    throw ConfigError(
        fmt::format("{}'{}' is a section: expected a key in it, for example {}", at, path, inside.front()));
  }

  std::vector<std::string> elsewhere;  // the right name under the wrong section
  for (const Field& field : fields_) {
    if (last_part(field.path) == last_part(path)) elsewhere.push_back(field.path);
  }
  if (!elsewhere.empty()) {
    std::vector<std::string> sections;
    for (const std::string& name : elsewhere) sections.push_back(name.substr(0, name.rfind('.')));
    throw ConfigError(fmt::format("{}unknown key '{}': it belongs under {}; did you mean '{}'?", at, path,
                                  fmt::join(sections, " or "), fmt::join(elsewhere, "' or '")));
  }

  std::vector<std::string> here;
  for (const Field& field : fields_) here.push_back(field.path);
  std::string hint = did_you_mean(path, here);
  if (hint.empty()) {
    std::vector<std::string> others;
    for (const auto& [field, owner] : all) {
      if (!owner.empty()) others.push_back(field.path);
    }
    hint = did_you_mean(path, others);
  }
  if (hint.empty()) hint = "; copylab list config shows all keys";
  throw ConfigError(fmt::format("{}unknown key '{}'{}", at, path, hint));
}

}  // namespace copylab
