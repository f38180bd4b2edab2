// Sweep file: results/<experiment>/sweep-<preset>.h5, the list of cells that figures and checks are made
// from.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/config/expand.h"

namespace copylab {

struct SweepRow {
  std::string run;  // name of the run's folder
  std::string arm;
  int64_t seed = 0;
  std::string status;  // done, failed, missing
  bool tune = false, best = false, same = false;
  std::map<std::string, std::string> coordinates;  // swept keys but the selected one, values as text
};

// results/<experiment>/sweep-<index>.h5, see Experiment::index.
std::filesystem::path sweep_path(const std::filesystem::path& root, const Experiment& experiment);

// Replaces the file. Layout: group /cells with columns of equal length: run, arm, seed, status, tune, best,
// same and one for each swept key, named by it; attributes of the root: experiment, preset, title, command,
// claims, config (the experiment's YAML, Experiment::text), select_over. Beside it, sweep-<index>.yaml: the
// command line as a comment, and that YAML.
void write_sweep(const std::filesystem::path& root, const Expansion& expansion,
                 const std::vector<Cell>& cells, const std::vector<SweepRow>& rows,
                 const std::string& command);

// What is read back of it. Throws Error for a missing or foreign file.
struct Sweep {
  std::string experiment, preset, command;
  std::vector<SweepRow> rows;
};
Sweep read_sweep(const std::filesystem::path& file);

}  // namespace copylab
