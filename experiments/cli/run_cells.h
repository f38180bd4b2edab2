// Running of an expanded experiment or of a single configuration, shared by `run` and `sweep`.
#pragma once

#include <string>
#include <vector>

#include "experiments/cli/common.h"

namespace copylab {

struct RunOptions {
  int jobs = 0;
  bool fail_fast = false;
  std::string out;
  DisplayOptions display;

  void add_to(CLI::App& verb);
};

// Runs at a time where nobody says: one per processor, or one if any is for the GPU, which they would share.
int default_jobs(const std::vector<Cell>& cells, int processors);

int run_expansion(const Expansion& expansion, const RunOptions& options, const std::string& command);
// A run's config.yaml: that one run.
int run_settings(const Settings& settings, const RunOptions& options, const std::string& command);

}  // namespace copylab
