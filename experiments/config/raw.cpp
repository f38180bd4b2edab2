// Reading of YAML and of key=value into untyped dotted keys.
#include "experiments/config/raw.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "experiments/config/error.h"

namespace copylab {
namespace {

bool valid_key(const std::string& key) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  bool part = false;  // the current component has a letter
  for (char c : key) {
    if (c != '.' && !letter(c)) return false;
    if (c == '.' && !part) return false;
    part = c != '.';
  }
  return part;
}

void flatten_into(RawConfig& out, const YAML::Node& map, const std::string& prefix, const std::string& file) {
  std::set<std::string> seen;
  for (const auto& pair : map) {
    const std::string at = where(pair.first, file);
    if (!pair.first.IsScalar() || !valid_key(pair.first.Scalar())) {
      throw ConfigError(fmt::format("{}: expected a key of letters, digits, '_' and '.', got '{}'", at,
                                    pair.first.IsScalar() ? pair.first.Scalar() : "a structure"));
    }
    const std::string key = prefix + pair.first.Scalar();
    if (!seen.insert(key).second) throw ConfigError(fmt::format("{}: {} is given twice", at, key));
    if (pair.second.IsMap()) {
      flatten_into(out, pair.second, key + ".", file);
      continue;
    }
    if (const RawValue* other = out.find(key)) {
      throw ConfigError(fmt::format("{}: {} is given twice, first at {}", at, key, other->where));
    }
    RawValue value = raw_value(pair.second, file);
    value.where = at;
    out.entries.push_back({key, std::move(value)});
  }
}

// An alias can make a node contain itself.
void check_nesting(const YAML::Node& node, const std::string& at, int depth = 0) {
  constexpr int kDeepest = 16;
  if (depth > kDeepest)
    throw ConfigError(fmt::format("{}: expected at most {} levels of nesting", at, kDeepest));
  for (const auto& item : node) check_nesting(node.IsMap() ? item.second : item, at, depth + 1);
}

std::pair<std::string, std::string> split_assignment(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw ConfigError(fmt::format("'{}': expected key=value, for example train.lr=1e-3", text));
  }
  const std::string key = text.substr(0, equals);
  if (!valid_key(key)) {
    throw ConfigError(fmt::format("'{}': expected key=value with a dotted key before '='", text));
  }
  return {key, text.substr(equals + 1)};
}

RawValue parse_list(const std::string& key, const std::string& text) {
  try {
    const YAML::Node list = YAML::Load(text);
    check_nesting(list, key);
    return raw_value(list, "");
  } catch (const YAML::Exception&) {
    throw ConfigError(fmt::format("{}: expected a list such as [1, 2], got '{}'", key, text));
  }
}

}  // namespace

std::string describe(const RawValue& value) {
  switch (value.kind) {
    case RawValue::Kind::null:
      return "null";
    case RawValue::Kind::list: {
      constexpr size_t kShown = 6;
      std::string text;
      for (size_t i = 0; i < std::min(kShown, value.items.size()); ++i)
        text +=
            (i > 0 ? ", " : "") +
            (value.items[i].kind == RawValue::Kind::scalar ? value.items[i].text : describe(value.items[i]));
      return "[" + text + (value.items.size() > kShown ? ", …]" : "]");
    }
    case RawValue::Kind::scalar:
      break;
  }
  return "'" + value.text + "'";
}

const RawValue* RawConfig::find(const std::string& key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

void RawConfig::set(const std::string& key, RawValue value) {
  for (Entry& entry : entries) {
    if (entry.key == key) {
      entry.value = std::move(value);
      return;
    }
  }
  entries.push_back({key, std::move(value)});
}

bool RawConfig::erase(const std::string& key) {
  return std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; }) != 0;
}

RawConfig merge(RawConfig under, const RawConfig& over) {
  for (const RawConfig::Entry& entry : over.entries) {
    if (entry.value.kind == RawValue::Kind::null) {
      if (!under.erase(entry.key)) {
        throw ConfigError(fmt::format("{}: {} is set to null to remove it, but it is not there",
                                      entry.value.where, entry.key));
      }
    } else {
      under.set(entry.key, entry.value);
    }
  }
  return under;
}

YAML::Node load_yaml(const std::filesystem::path& file) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAllFromFile(file.string());
    if (documents.size() == 1) {
      check_nesting(documents[0], file.string());
      return documents[0];
    }
    throw ConfigError(fmt::format("{}: expected one YAML document, got {}", file.string(), documents.size()));
  } catch (const YAML::BadFile&) {
    throw ConfigError(fmt::format("{}: cannot be read", file.string()));
  } catch (const YAML::Exception& e) {
    throw ConfigError(fmt::format("{}:{}: not valid YAML: {}", file.string(), e.mark.line + 1, e.msg));
  }
}

std::string where(const YAML::Node& node, const std::string& file) {
  return file.empty() ? "" : fmt::format("{}:{}", file, node.Mark().line + 1);
}

RawValue raw_value(const YAML::Node& node, const std::string& file) {
  RawValue value;
  value.where = where(node, file);
  if (node.IsNull()) {
    value.kind = RawValue::Kind::null;
  } else if (node.IsScalar()) {
    value.text = node.Scalar();
  } else if (node.IsSequence()) {
    value.kind = RawValue::Kind::list;
    for (const YAML::Node& item : node) value.items.push_back(raw_value(item, file));
  } else {
    throw ConfigError(fmt::format("{}: expected a value or a list, got a map", value.where));
  }
  return value;
}

RawConfig flatten(const YAML::Node& map, const std::string& file) {
  RawConfig out;
  if (map.IsNull()) return out;
  if (!map.IsMap()) throw ConfigError(fmt::format("{}: expected keys with values", where(map, file)));
  flatten_into(out, map, "", file);
  return out;
}

RawConfig read_config(const std::filesystem::path& file) {
  return flatten(load_yaml(file), file.string());
}

RawConfig::Entry parse_assignment(const std::string& text) {
  const auto [key, value] = split_assignment(text);
  if (value.starts_with('[')) return {key, parse_list(key, value)};
  return {key, RawValue{RawValue::Kind::scalar, value, {}, ""}};
}

RawConfig::Entry parse_sweep_assignment(const std::string& text) {
  const auto [key, value] = split_assignment(text);
  RawValue list{RawValue::Kind::list, "", {}, ""};
  if (value.starts_with('[')) {
    list = parse_list(key, "[" + value + "]");
  } else {
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find(',', begin), value.size());
      list.items.push_back({RawValue::Kind::scalar, value.substr(begin, end - begin), {}, ""});
      begin = end + 1;
    }
  }
  return {key, std::move(list)};
}

}  // namespace copylab
