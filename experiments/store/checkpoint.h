// Checkpoint: the weights and optimizer state of a run after a number of updates, as an HDF5 file.
#pragma once

#include <filesystem>
#include <string>

#include "core/nn/carry.h"
#include "core/nn/parameters.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"

namespace copylab {

// Layout: /params/<dotted.name> row-major, weights (out, in); /optim/<buffer>.<dotted.name>; /state with the
// fields below as attributes.
struct CheckpointState {
  std::string run_id;  // of the run that wrote it
  int64_t step = 0;    // updates done
  int64_t tokens = 0;
  int64_t train_rows = 0;  // rows logged so far: resuming checks that they are all there
  int64_t valid_rows = 0;
  optim::Plateau plateau;
  nn::Carry carry;  // of a stream task: /state/carry/h, c (L, B, D), states (B, M, D), tokens (B, M)
};

// Replaces `file` atomically. Without an optimizer only the weights are stored.
void save_checkpoint(const std::filesystem::path& file, const CheckpointState& state,
                     const nn::Parameters& parameters, const optim::Optimizer* optimizer);

// Loads weights, and the optimizer's state if one is given. The file must hold exactly the names and shapes
// of the parameters and of the optimizer's buffers, and belong to run `run_id`; otherwise nothing is changed
// and the Error says what differs.
CheckpointState load_checkpoint(const std::filesystem::path& file, const std::string& run_id,
                                nn::Parameters& parameters, optim::Optimizer* optimizer);

// The state alone.
CheckpointState read_checkpoint_state(const std::filesystem::path& file);

}  // namespace copylab
