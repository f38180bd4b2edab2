// RunWriter: records a run while it goes on, and picks up what an earlier process left.
#pragma once

#include <chrono>
#include <optional>

#include "experiments/store/checkpoint.h"
#include "experiments/store/journal.h"
#include "experiments/store/metrics.h"
#include "experiments/store/run_folder.h"

namespace copylab {

// Rows go to memory and to the journal. save() makes a checkpoint and a metrics file that holds all rows so
// far, and empties the journal. Whatever moment the process dies at, the rows up to the newest checkpoint are
// in the metrics file or in the journal.
class RunWriter {
 public:
  // `fresh` holds config, settings, run_id and provenance of the run, and no rows.
  RunWriter(RunFolder folder, Metrics fresh);

  // Loads the newest checkpoint into parameters and optimizer, and the rows up to it; rows after it are cut.
  // Nothing, and an empty record, if there is no checkpoint or rows before it are lost: start from the
  // beginning. Throws Error for files that are damaged or belong to another run; they are left as they are.
  std::optional<CheckpointState> resume(nn::Parameters& parameters, optim::Optimizer& optimizer);

  void log(const TrainRow& row);
  void log(const ValidRow& row);
  // Fills in run id and row counts of the state.
  void save(CheckpointState state, const nn::Parameters& parameters, const optim::Optimizer& optimizer);
  void save_metrics(const std::string& status);  // metrics file alone
  void finish();                                 // status done, the journal removed, DONE

  Metrics& metrics() { return metrics_; }
  const RunFolder& folder() const { return folder_; }

 private:
  void start_over();

  RunFolder folder_;
  Metrics metrics_;
  std::optional<Journal> journal_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  double wall_before_ = 0;  // of earlier processes
};

}  // namespace copylab
