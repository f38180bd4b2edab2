// TaskCells: a run's task at several levels, places of meta-tokens and lengths, and the run's model for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/measures/measure.h"

namespace copylab {

// The tasks of a measure's cells, (levels, pauses, lengths) row-major.
struct TaskCells {
  struct Cell {
    int64_t length;
    std::unique_ptr<Task> task;  // null where the level's prompts do not fit into so few positions
    std::string name;            // "hard_wrong_256"; levels and pauses only where there are several
  };
  std::vector<std::string> levels, pauses;
  std::vector<int64_t> lengths;
  std::vector<Cell> cells;

  // `level_list` and `pause_list` are names separated by commas; empty: the run's own, or one without a name
  // where the task has no such setting. No lengths: the run's own. Throws ConfigError for what is no setting
  // of the run's task.
  TaskCells(const MeasureInput& in, const char* measure, const std::string& level_list,
            const std::string& pause_list, const std::vector<int64_t>& at_lengths);

  int64_t longest() const;
  // Floating-point operations of as many sequences of each cell.
  double flops(const MeasureInput& in, int64_t sequences) const;
};

// The run's model, able to read `positions` tokens. `allocated` false: without weights, to see if there can
// be one. Throws ConfigError if its parameters depend on the number of positions.
std::unique_ptr<nn::Model> longer_model(const MeasureInput& in, const char* measure, int64_t positions,
                                        bool allocated);

}  // namespace copylab
