// Typing of raw values by the schema.
#include "experiments/config/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/nearest.h"
#include "experiments/config/error.h"

namespace copylab {
namespace {

template <class T>
std::optional<T> parse_number(const std::string& text) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (text.size() > 1 && *begin == '+' && begin[1] != '-') ++begin;
  T value{};
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool in_range(const Field& field, double value) {
  return value >= field.min && value <= field.max;
}

std::string range_text(const Field& field, bool whole) {
  const auto text = [&](double v) { return whole ? fmt::format("{:.0f}", v) : format_value(v); };
  const bool low = std::isfinite(field.min), high = std::isfinite(field.max);
  if (low && high) return fmt::format(" from {} to {}", text(field.min), text(field.max));
  if (low) return fmt::format(", {} or more", text(field.min));
  if (high) return fmt::format(", {} or less", text(field.max));
  return "";
}

// What the user may have meant by a number that an integer field refuses.
std::string integer_hint(const RawValue& raw) {
  const std::optional<double> real = parse_number<double>(raw.text);
  if (!real || std::floor(*real) != *real || std::abs(*real) > 1e15) return "";
  return fmt::format(" (write {:.0f})", *real);
}

std::string list_hint(const RawValue& raw) {
  const bool commas = raw.kind == RawValue::Kind::scalar && raw.text.find(',') != std::string::npos;
  return raw.where.empty() && commas ? " (several values: use copylab sweep)" : "";
}

std::optional<int64_t> parse_integer(const Field& field, const RawValue& raw) {
  if (raw.kind != RawValue::Kind::scalar) return std::nullopt;
  const std::optional<int64_t> value = parse_number<int64_t>(raw.text);
  if (!value || !in_range(field, static_cast<double>(*value))) return std::nullopt;
  return value;
}

std::optional<Value> try_parse(const Field& field, const RawValue& raw) {
  const bool scalar = raw.kind == RawValue::Kind::scalar;
  if (std::holds_alternative<std::vector<int64_t>>(field.fallback)) {
    if (raw.kind != RawValue::Kind::list) return std::nullopt;
    std::vector<int64_t> list;
    for (const RawValue& item : raw.items) {
      const std::optional<int64_t> value = parse_integer(field, item);
      if (!value) return std::nullopt;
      list.push_back(*value);
    }
    return list;
  }
  if (!scalar) return std::nullopt;
  if (std::holds_alternative<bool>(field.fallback)) {
    if (raw.text != "true" && raw.text != "false") return std::nullopt;
    return raw.text == "true";
  }
  if (std::holds_alternative<int64_t>(field.fallback)) {
    const std::optional<int64_t> value = parse_integer(field, raw);
    return value ? std::optional<Value>(*value) : std::nullopt;
  }
  if (std::holds_alternative<double>(field.fallback)) {
    const std::optional<double> value = parse_number<double>(raw.text);
    if (!value || !std::isfinite(*value) || !in_range(field, *value)) return std::nullopt;
    return *value == 0.0 ? 0.0 : *value;  // -0 and 0 are one value
  }
  const bool known = field.choices.empty() ||
                     std::find(field.choices.begin(), field.choices.end(), raw.text) != field.choices.end();
  return known ? std::optional<Value>(raw.text) : std::nullopt;
}

}  // namespace

Value parse_value(const Field& field, const RawValue& raw) {
  if (std::optional<Value> value = try_parse(field, raw)) return *std::move(value);
  std::string hint = list_hint(raw);
  if (raw.kind == RawValue::Kind::scalar) {
    if (std::holds_alternative<int64_t>(field.fallback) && !parse_number<int64_t>(raw.text)) {
      hint += integer_hint(raw);
    }
    hint += did_you_mean(raw.text, field.choices);
  }
  throw ConfigError(fmt::format("{}{}{}: expected {}, got {}{}", raw.where, raw.where.empty() ? "" : ": ",
                                field.path, expectation(field), describe(raw), hint));
}

std::string type_name(const Field& field) {
  static const char* const names[] = {"flag", "integer", "real", "text", "list"};
  return names[field.fallback.index()];
}

std::string expectation(const Field& field) {
  if (std::holds_alternative<bool>(field.fallback)) return "true or false";
  if (std::holds_alternative<int64_t>(field.fallback)) return "an integer" + range_text(field, true);
  if (std::holds_alternative<double>(field.fallback)) return "a number" + range_text(field, false);
  if (std::holds_alternative<std::string>(field.fallback)) {
    if (field.choices.empty()) return "a text";
    return fmt::format("one of {}", fmt::join(field.choices, ", "));
  }
  return fmt::format("a list such as [1, 2], each an integer{}", range_text(field, true));
}

}  // namespace copylab
