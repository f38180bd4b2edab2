// Layering, defaults, the run id and the YAML form of settings.
#include "experiments/config/resolve.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/nearest.h"
#include "core/random.h"
#include "experiments/config/error.h"
#include "experiments/config/run_fields.h"
#include "experiments/config/values.h"

namespace copylab {
namespace {

// The values written for each key, from the lowest layer to the highest.
using Stack = std::map<std::string, std::vector<RawValue>>;

void drop_section(Stack& stack, const std::string& prefix) {
  std::erase_if(stack, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

Stack stack_layers(const std::vector<RawConfig>& layers) {
  Stack stack;
  for (const RawConfig& layer : layers) {
    for (const auto& [selector, section] :
         {std::pair{"task.name", "task."}, std::pair{"head.kind", "head."}}) {
      const RawValue* chosen = layer.find(selector);
      const auto before = stack.find(selector);
      const bool another = chosen && before != stack.end() && before->second.back().text != chosen->text;
      if (another) drop_section(stack, section);
    }
    for (const RawConfig::Entry& entry : layer.entries) stack[entry.key].push_back(entry.value);
  }
  return stack;
}

std::string chosen_text(const Stack& stack, const Field& field) {
  const auto it = stack.find(field.path);
  if (it == stack.end()) return std::get<std::string>(field.fallback);
  return std::get<std::string>(parse_value(field, it->second.back()));
}

Schema schema_of(const Catalogue& catalogue, const Stack& stack) {
  const Field task = catalogue.task_field();
  if (!stack.count("task.name")) {
    throw ConfigError(fmt::format("task.name: expected {}, and it has no default", expectation(task)));
  }
  std::vector<std::string> measures;
  const auto it = stack.find("run.measures");
  if (it != stack.end()) measures = measure_names(it->second.back().text);
  for (const std::string& name : measures) {
    if (catalogue.measure(name)) continue;
    std::vector<std::string> names;
    for (const Choice& choice : catalogue.measures) names.push_back(choice.name);
    throw ConfigError(
        fmt::format("run.measures: expected names of measures, got '{}'{}", name, did_you_mean(name, names)));
  }
  return Schema(catalogue, chosen_text(stack, task), chosen_text(stack, catalogue.head_field()), measures);
}

const Value* find_preset_value(const Catalogue& catalogue, const Settings& settings,
                               const std::string& path) {
  if (!settings.has("model.preset")) return nullptr;
  const auto preset = catalogue.presets.find(settings.text("model.preset"));
  if (preset == catalogue.presets.end()) return nullptr;
  for (const auto& [key, value] : preset->second) {
    if (key == path) return &value;
  }
  return nullptr;
}

// Text that YAML reads back as itself: plain where that is safe, else in double quotes.
std::string quoted(const std::string& text) {
  const auto safe = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
  };
  const bool plain = !text.empty() && std::isalnum(static_cast<unsigned char>(text[0])) &&
                     std::all_of(text.begin(), text.end(), safe) && text != "null" && text != "Null" &&
                     text != "NULL";
  if (plain) return text;
  YAML::Emitter out;
  out << YAML::DoubleQuoted << text;
  return out.c_str();
}

}  // namespace

Settings resolve(const Catalogue& catalogue, const std::vector<RawConfig>& layers) {
  const Stack stack = stack_layers(layers);
  const Schema schema = schema_of(catalogue, stack);
  Settings settings;
  for (const auto& [path, values] : stack) {
    for (const RawValue& raw : values) settings.set(path, parse_value(schema.at(path, raw.where), raw));
  }
  for (const Field& field : schema.fields()) {
    if (field.path == "model.preset" && !settings.has(field.path)) settings.set(field.path, field.fallback);
  }
  for (const Field& field : schema.fields()) {
    if (settings.has(field.path)) continue;
    const Value* preset = find_preset_value(catalogue, settings, field.path);
    settings.set(field.path, preset ? *preset : field.fallback);
  }
  return settings;
}

namespace {

void complete_choice(const Choice* choice, Settings& settings) {
  if (!choice || !choice->complete) return;
  try {
    choice->complete(settings);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace

void complete_measures(const Catalogue& catalogue, Settings& settings) {
  for (const std::string& name : measure_names(settings.text("run.measures")))
    complete_choice(catalogue.measure(name), settings);
}

void complete(const Catalogue& catalogue, Settings& settings) {
  complete_choice(catalogue.task(settings.text("task.name")), settings);
  complete_measures(catalogue, settings);
}

Settings resolve_new(const Catalogue& catalogue, const std::vector<RawConfig>& layers) {
  Settings settings = resolve(catalogue, layers);
  complete(catalogue, settings);
  return settings;
}

bool knows(const Catalogue& catalogue, const std::vector<RawConfig>& layers, const std::string& key) {
  return schema_of(catalogue, stack_layers(layers)).find(key) != nullptr;
}

std::string canonical_text(const Catalogue& catalogue, const Settings& settings) {
  const std::string& task = settings.text("task.name");
  const Choice* choice = catalogue.task(task);
  expect(choice != nullptr, "config", "no task '{}'", task);
  const Schema schema(catalogue, task, settings.text("head.kind"), {});
  std::string text = fmt::format("format={}\ntask.version={}\n", kFormatVersion, choice->version);
  for (const auto& [path, value] : settings.values()) {  // in order of path
    const Field* field = schema.find(path);
    if (field && field->later && value == field->fallback) continue;
    if (field && field->semantic) text += path + "=" + format_value(value) + "\n";
  }
  return text;
}

std::string run_id(const Catalogue& catalogue, const Settings& settings) {
  const uint64_t h = hash_name(canonical_text(catalogue, settings));
  return fmt::format("{:08x}", static_cast<uint32_t>(h ^ (h >> 32)));
}

std::string run_id(const Settings& settings) {
  return run_id(Catalogue::installed(), settings);
}

std::string to_yaml(const Settings& settings) {
  std::string out;
  std::vector<std::string> open;  // sections that the last line was in
  for (const auto& [path, value] : settings.values()) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin <= path.size();) {
      const size_t end = std::min(path.find('.', begin), path.size());
      parts.push_back(path.substr(begin, end - begin));
      begin = end + 1;
    }
    size_t depth = 0;
    while (depth < open.size() && depth + 1 < parts.size() && open[depth] == parts[depth]) ++depth;
    open.resize(depth);
    for (; depth + 1 < parts.size(); ++depth) {
      out += std::string(2 * depth, ' ') + parts[depth] + ":\n";
      open.push_back(parts[depth]);
    }
    const std::string* text = std::get_if<std::string>(&value);
    out += std::string(2 * depth, ' ') + parts.back() + ": " + (text ? quoted(*text) : format_value(value)) +
           "\n";
  }
  return out;
}

Settings load_settings(const std::filesystem::path& file) {
  return resolve(Catalogue::installed(), {read_config(file)});
}

}  // namespace copylab
