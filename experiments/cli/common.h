// What several verbs share: where things are, and the options that choose and change an experiment.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/config/expand.h"
#include "experiments/schedule/display.h"

namespace copylab {

// The folder with configs/ in it: this one or one above it, else above the program.
std::filesystem::path project_root();
// Where runs are written: `chosen`, or results/ in the project.
std::filesystem::path results_root(const std::string& chosen);

// Names of the experiments in configs/, sorted.
std::vector<std::string> experiment_names();
// The file of an experiment: a path to a YAML file, or the name of one in configs/. Throws ConfigError.
std::filesystem::path experiment_file(const std::string& name);

// For options that mean something else when they are left out: an empty text (an unset variable of a script)
// is refused.
CLI::Validator not_empty();

// NAME --preset P --seeds N --arms A,B --device D key=value …
struct ExperimentOptions {
  std::string name, preset, device;
  Overrides overrides;

  void add_to(CLI::App& verb);
  // Throws ConfigError, also for a device that is not there and for settings that do not go together.
  Expansion expand() const;
};

// --quiet and --json.
struct DisplayOptions {
  bool quiet = false, json = false;

  void add_to(CLI::App& verb);
  Display::Mode mode() const;
};

// Throws ConfigError if the backend that run.device names is not there, or cannot compute at run.precision.
void check_device(const Settings& settings);

// A table in plain text: columns padded to their widest cell.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  size_t size() const { return rows_.size() - 1; }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Turns this process into `command` (found by PATH); returns only to throw Error.
[[noreturn]] void become(const std::vector<std::string>& command);

}  // namespace copylab
