// Sweep: runs an experiment's cells, selects where it asks for it, and keeps the sweep file up to date.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/config/expand.h"
#include "experiments/schedule/scheduler.h"

namespace copylab {

struct SweepResult {
  std::vector<Cell> cells;
  int failed = 0;
  bool interrupted = false;
};

// `command` is the line that the user typed; it is stored. Both phases of a selection run in one call.
SweepResult run_sweep(const Expansion& expansion, Scheduler& scheduler, const std::filesystem::path& root,
                      const std::string& command);

// Exit code of the program after that: 0, 1 or 130.
int exit_code(const Scheduler& scheduler);
// "12 runs: 9 done, 2 of them before; 1 failed; 2 not started", and the failures.
void print_summary(const Scheduler& scheduler, Display& display);

}  // namespace copylab
