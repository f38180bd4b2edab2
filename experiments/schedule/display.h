// Display: what long work shows: one live line on a terminal, plain lines in a pipe, JSON for machines.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace copylab {

// One line of JSON.
using JsonValue = std::variant<std::string, double, int64_t, bool>;
std::string json_line(const std::vector<std::pair<std::string, JsonValue>>& members);
// A member of one line of flat JSON, or NaN / "" where it has none of this kind.
double json_number(const std::string& line, const std::string& name);

// "1h 02m", "3m 05s", "12.3 s"
std::string duration(double seconds);
// "81.2k", "3.4M"
std::string short_number(double value);

class Display {
 public:
  enum class Mode { normal, quiet, json };

  Display(Mode mode, std::FILE* out);
  ~Display();  // takes the live line away

  Mode mode() const { return mode_; }
  bool is_live() const { return live_; }

  // A line that stays; not in quiet and json modes.
  void say(const std::string& text);
  // A line that stays also in quiet mode: failures and results.
  void insist(const std::string& text);
  // The line at the bottom of a terminal, cut to its width; nothing elsewhere.
  void show(const std::string& text);
  // An event, in json mode only.
  void event(const std::vector<std::pair<std::string, JsonValue>>& members);

 private:
  void clear();

  Mode mode_;
  std::FILE* out_;
  bool live_;  // a terminal in normal mode
  bool shown_ = false;
};

}  // namespace copylab
