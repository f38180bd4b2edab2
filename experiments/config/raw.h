// Raw configuration: dotted keys with their untyped text, as read from YAML or from the command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace YAML {
class Node;
}

namespace copylab {

// What was written for a key, before the schema gives it a type.
struct RawValue {
  enum class Kind { null, scalar, list };
  Kind kind = Kind::scalar;
  std::string text;             // scalar: as written
  std::vector<RawValue> items;  // list
  std::string where;            // "configs/spamlang.yaml:12", or "" for the command line
};

std::string describe(const RawValue& value);  // "'yes'", "[1, 2]", "null": for "got …"

// Keys in the order written; every key occurs once.
struct RawConfig {
  struct Entry {
    std::string key;
    RawValue value;
  };
  std::vector<Entry> entries;

  const RawValue* find(const std::string& key) const;
  void set(const std::string& key, RawValue value);  // replaces in place, or appends
  bool erase(const std::string& key);
};

// `over` laid over `under`: its values replace, and its nulls remove.
RawConfig merge(RawConfig under, const RawConfig& over);

// Reads one YAML document; throws ConfigError with file and line.
YAML::Node load_yaml(const std::filesystem::path& file);
// "FILE:LINE" of a node.
std::string where(const YAML::Node& node, const std::string& file);
// A scalar, list or null.
RawValue raw_value(const YAML::Node& node, const std::string& file);
// A map as dotted keys: nested maps and dotted keys may be mixed. The same key twice is an error, in either
// form.
RawConfig flatten(const YAML::Node& map, const std::string& file);
RawConfig read_config(const std::filesystem::path& file);  // load_yaml, then flatten

// "train.lr=1e-3" from the command line. A value that starts with '[' is a YAML list.
RawConfig::Entry parse_assignment(const std::string& text);
// "task.vocab=256,1024": a list of the comma-separated values; "model.kinds=[1,2],[3]" is a list of two
// lists.
RawConfig::Entry parse_sweep_assignment(const std::string& text);

}  // namespace copylab
