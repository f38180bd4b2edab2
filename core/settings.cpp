// Settings: typed access by dotted path.
#include "core/settings.h"

#include "core/error.h"

#include <fmt/format.h>

namespace copylab {
namespace {

template <class T>
const T& get(const Settings& settings, const std::string& path, const char* type) {
  const T* value = std::get_if<T>(&settings.at(path));
  expect(value != nullptr, "settings", "{} is not {}", path, type);
  return *value;
}

}  // namespace

std::string format_value(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
  if (const double* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  return fmt::format("[{}]", fmt::join(std::get<std::vector<int64_t>>(value), ", "));
}

const Value& Settings::at(const std::string& path) const {
  const auto it = values_.find(path);
  expect(it != values_.end(), "settings", "no value for {}", path);
  return it->second;
}

bool Settings::flag(const std::string& path) const {
  return get<bool>(*this, path, "a flag");
}
int64_t Settings::integer(const std::string& path) const {
  return get<int64_t>(*this, path, "an integer");
}
double Settings::real(const std::string& path) const {
  return get<double>(*this, path, "a number");
}
const std::string& Settings::text(const std::string& path) const {
  return get<std::string>(*this, path, "a text");
}
const std::vector<int64_t>& Settings::integers(const std::string& path) const {
  return get<std::vector<int64_t>>(*this, path, "a list of integers");
}

}  // namespace copylab
