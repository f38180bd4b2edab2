// Lines for people and machines.
#include "experiments/schedule/display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace copylab {
namespace {

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

size_t terminal_width(std::FILE* out) {
  winsize size = {};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

std::string json_line(const std::vector<std::pair<std::string, JsonValue>>& members) {
  std::string out = "{";
  for (const auto& [name, value] : members) {
    if (out.size() > 1) out += ',';
    out += json_text(name) + ':';
    if (const std::string* text = std::get_if<std::string>(&value)) out += json_text(*text);
    if (const double* real = std::get_if<double>(&value)) {
      out += std::isfinite(*real) ? fmt::format("{}", *real) : "null";
    }
    if (const int64_t* integer = std::get_if<int64_t>(&value)) out += fmt::format("{}", *integer);
    if (const bool* flag = std::get_if<bool>(&value)) out += *flag ? "true" : "false";
  }
  return out + "}";
}

double json_number(const std::string& line, const std::string& name) {
  double value = std::numeric_limits<double>::quiet_NaN();
  const std::string key = '"' + name + "\":";
  const size_t at = line.find(key);
  if (at == std::string::npos) return value;
  const char* begin = line.data() + at + key.size();
  while (*begin == ' ') ++begin;
  std::from_chars(begin, line.data() + line.size(), value);
  return value;
}

std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = static_cast<int64_t>(std::lround(seconds));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
}

std::string short_number(double value) {
  if (std::abs(value) >= 1e12) return fmt::format("{:.3g}T", value / 1e12);
  if (std::abs(value) >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
  if (std::abs(value) >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (std::abs(value) >= 1e3) return fmt::format("{:.3g}k", value / 1e3);
  return fmt::format("{:.3g}", value);
}

Display::Display(Mode mode, std::FILE* out)
    : mode_(mode), out_(out), live_(mode == Mode::normal && isatty(fileno(out)) == 1) {}

Display::~Display() {
  clear();
}

void Display::clear() {
  if (shown_) std::fputs("\r\033[K", out_);
  shown_ = false;
}

void Display::say(const std::string& text) {
  if (mode_ == Mode::normal) insist(text);
}

void Display::insist(const std::string& text) {
  if (mode_ == Mode::json) return;
  clear();
  std::fputs((text + "\n").c_str(), out_);
  std::fflush(out_);
}

void Display::show(const std::string& text) {
  if (!live_) return;
  clear();
  std::fputs(text.substr(0, terminal_width(out_) - 1).c_str(), out_);
  std::fflush(out_);
  shown_ = true;
}

void Display::event(const std::vector<std::pair<std::string, JsonValue>>& members) {
  if (mode_ != Mode::json) return;
  std::fputs((json_line(members) + "\n").c_str(), out_);
  std::fflush(out_);
}

}  // namespace copylab
