// Paths, shared options and tables of the command line.
#include "experiments/cli/common.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "core/backend.h"
#include "core/nearest.h"
#include "experiments/config/error.h"
#include "experiments/plan/estimate.h"
#include "experiments/schedule/process.h"

namespace copylab {
namespace fs = std::filesystem;

namespace {

void check_stage(const Stage& stage, const Stage* before) {
  check_device(stage.settings);
  try {
    expect_consistent(stage.settings);
    if (before) expect_continues(before->settings, stage.settings);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{} (run {})", error.what(), fs::path(stage.folder).filename().string()));
  }
}

}  // namespace

fs::path project_root() {
  for (fs::path start : {fs::current_path(), fs::path(this_program()).parent_path()}) {
    for (fs::path folder = start;; folder = folder.parent_path()) {
      if (fs::is_directory(folder / "configs")) return folder;
      if (folder == folder.parent_path()) break;
    }
  }
  return fs::current_path();
}

fs::path results_root(const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  const fs::path root = project_root();
  return root == fs::current_path() ? fs::path("results") : root / "results";
}

std::vector<std::string> experiment_names() {
  std::vector<std::string> names;
  const fs::path folder = project_root() / "configs";
  if (fs::is_directory(folder)) {
    for (const auto& file : fs::directory_iterator(folder)) {
      if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path experiment_file(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  const fs::path file = project_root() / "configs" / (name + ".yaml");
  if (fs::is_regular_file(file)) return file.lexically_proximate(fs::current_path());
  const std::vector<std::string> names = experiment_names();
  const std::string known =
      names.empty() ? "configs/ of a checkout, which is not here" : fmt::format("{}", fmt::join(names, ", "));
  throw ConfigError(fmt::format("unknown experiment '{}': expected a YAML file or one of {}{}", name, known,
                                did_you_mean(name, names)));
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? std::string("expected a value, got ''") : ""; }, "",
      "not empty");
}

void ExperimentOptions::add_to(CLI::App& verb) {
  verb.add_option("NAME", name, "experiment in configs/, or a YAML file")->required();
  verb.add_option("--preset", preset, "size of the experiment: smoke, quick or full (default: quick)")
      ->check(not_empty());
  verb.add_option("--seeds", overrides.seeds,
                  "how many seeds (3: seeds 1, 2, 3), or which (5,7); for one that is not 1, train.seed=5")
      ->check(not_empty());
  verb.add_option("--arms", overrides.arms, "only these arms, separated by commas")->check(not_empty());
  verb.add_option("--device", device, "cpu or cuda (default: as the configuration says, cpu)")
      ->check(not_empty());
}

Expansion ExperimentOptions::expand() const {
  Experiment experiment = load_experiment(experiment_file(name), preset);
  Overrides all = overrides;
  if (!device.empty()) all.assignments.push_back("run.device=" + device);
  apply(experiment, all);
  Expansion expansion(Catalogue::installed(), std::move(experiment));
  std::set<std::string> checked;  // ids: a stage that cells share is one
  for (const Cell& cell : expansion.first()) {
    for (size_t i = 0; i < cell.stages.size(); ++i)
      if (checked.insert(cell.stages[i].id).second)
        check_stage(cell.stages[i], i > 0 ? &cell.stages[i - 1] : nullptr);
  }
  return expansion;
}

void DisplayOptions::add_to(CLI::App& verb) {
  CLI::Option* quiet_flag = verb.add_flag("--quiet", quiet, "print failures only");
  verb.add_flag("--json", json, "print one JSON object per event")->excludes(quiet_flag);
}

Display::Mode DisplayOptions::mode() const {
  return json ? Display::Mode::json : quiet ? Display::Mode::quiet : Display::Mode::normal;
}

void check_device(const Settings& settings) {
  const std::string& precision = settings.text("run.precision");
  if (settings.text("run.device") != "cuda") {
    if (precision != "f32")
      throw ConfigError(
          fmt::format("run.precision={}: needs run.device=cuda; the CPU computes in f32", precision));
    if (settings.text("train.cuda_graph") == "on")
      throw ConfigError("train.cuda_graph=on: needs run.device=cuda");
    return;
  }
  const char* why = "";
  if (!cuda_backend(&why)) throw ConfigError(fmt::format("--device cuda: {}", why));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    if (row.empty()) continue;  // no header
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(i + 1 < row.size() ? widths[i] - row[i].size() + 2 : 0, ' ');
    }
    out += line + "\n";
  }
  return out;
}

void become(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  execvp(argv[0], argv.data());
  throw Error(fmt::format("{} cannot be started: {}", command[0], std::strerror(errno)));
}

}  // namespace copylab
