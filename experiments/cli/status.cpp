// copylab status: what is done, failed, running or missing below a results folder.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"
#include "experiments/schedule/run_index.h"
#include "experiments/schedule/sweep_file.h"
#include "experiments/store/run_folder.h"

namespace copylab {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// The state of a run, or why it cannot be told.
std::pair<std::string, std::string> describe(const fs::path& run) {
  try {
    const RunState state = run_state(run);
    const std::string text = state == RunState::failed ? RunFolder{run}.failure() : "";
    return {name_of(state), text};
  } catch (const std::exception& error) {
    return {"unreadable", error.what()};
  }
}

void print_experiment(const fs::path& folder) {
  std::map<std::string, int> counts;
  std::string details;
  for (const fs::path& run : sorted_entries(folder)) {
    if (!fs::is_directory(run) || !id_of_folder(run)) continue;
    const auto [state, text] = describe(run);
    ++counts[state];
    if (state != "done")
      details +=
          fmt::format("  {:10} {}{}{}\n", state, run.filename().string(), text.empty() ? "" : ": ", text);
  }
  std::string summary;
  for (const auto& [state, n] : counts) {
    summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", n, state);
  }
  fmt::print("{}: {}\n", folder.string(), summary.empty() ? "no runs" : summary);
  for (const fs::path& file : sorted_entries(folder)) {
    if (!file.filename().string().starts_with("sweep-") || file.extension() != ".h5") continue;
    Sweep sweep;
    try {
      sweep = read_sweep(file);
    } catch (const Error& error) {
      details += fmt::format("  {:10} {}: {}\n", "unreadable", file.filename().string(), error.what());
      continue;
    }
    const auto count = [&](const char* status) {
      return std::count_if(sweep.rows.begin(), sweep.rows.end(),
                           [&](const SweepRow& row) { return row.status == status; });
    };
    fmt::print("  {}: {} cells: {} done, {} failed, {} missing   ({})\n", file.filename().string(),
               sweep.rows.size(), count("done"), count("failed"), count("missing"), sweep.command);
  }
  fmt::print("{}", details);
}

bool has_runs(const fs::path& folder) {
  for (const fs::path& entry : sorted_entries(folder)) {
    if (entry.filename().string().starts_with("sweep-")) return true;
    if (fs::is_directory(entry) && id_of_folder(entry)) return true;
  }
  return false;
}

}  // namespace

void add_status(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("status", "what is done, failed, running or half done");
  auto folder = std::make_shared<std::string>();
  verb->add_option("DIR", *folder, "results, or the folder of one experiment (default: results)");
  verb->callback([folder, &invocation] {
    invocation.action = [folder] {
      const fs::path root = results_root(*folder);
      if (!fs::is_directory(root))
        throw ConfigError(fmt::format("{}: is not a folder with results", root.string()));
      if (has_runs(root)) {
        print_experiment(root);
        return 0;
      }
      for (const fs::path& experiment : sorted_entries(root)) {
        if (fs::is_directory(experiment) && has_runs(experiment)) print_experiment(experiment);
      }
      return 0;
    };
  });
}

}  // namespace copylab
