// Settings: named, typed values with a schema: what a config section may hold, and what it holds.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace copylab {

// A setting is one of these; integers and reals are told apart by the schema, not by spelling.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

// Shortest text that reads back as the same value; the same on every machine.
std::string format_value(const Value& value);

// One entry of the schema. The part of the program that reads a setting declares it.
struct Field {
  std::string path;                                       // dotted: "head.copy_self"
  Value fallback;                                         // default; its type is the field's type
  std::string doc;                                        // one line, with the unit
  double min = -std::numeric_limits<double>::infinity();  // numbers: inclusive range
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // text: the allowed words; empty = any
  bool semantic = true;  // false: does not change results (log interval, threads), so not in the run id
  // Younger than published results: at its default it changes nothing, and is left out of the run id, so that
  // earlier runs keep theirs.
  bool later = false;
};

// Resolved values by dotted path. Asking for a path that is missing, or under another type, throws Error:
// that is a bug of the program, since the schema has checked the user's input before.
class Settings {
 public:
  bool has(const std::string& path) const { return values_.count(path) != 0; }
  bool flag(const std::string& path) const;
  int64_t integer(const std::string& path) const;
  double real(const std::string& path) const;
  const std::string& text(const std::string& path) const;
  const std::vector<int64_t>& integers(const std::string& path) const;
  const Value& at(const std::string& path) const;

  void set(const std::string& path, Value value) { values_[path] = std::move(value); }
  const std::map<std::string, Value>& values() const { return values_; }

 private:
  std::map<std::string, Value> values_;  // ordered, so that printing and hashing are canonical
};

}  // namespace copylab
