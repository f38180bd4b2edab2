// TrainPlan: how long a run trains and with what rates, worked out from its settings.
#pragma once

#include <set>

#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"
#include "core/settings.h"
#include "tasks/task.h"

namespace copylab {

struct TrainPlan {
  int64_t batch = 0;       // sequences of a forward pass
  int64_t accumulate = 0;  // forward passes of an update
  int64_t length = 0;      // tokens of a sequence
  int64_t steps = 0;       // updates
  int64_t log_every = 0;   // updates
  std::set<int64_t>
      kept;  // updates after which a checkpoint is kept: none, or 0, `steps` and train.keep between
  optim::Schedule schedule;
  optim::OptimizerOptions optimizer;
  double clip = 0;
  enum class CudaGraph { automatic, on, off } cuda_graph = CudaGraph::automatic;

  int64_t sequences_per_step() const { return batch * accumulate; }
  int64_t tokens_per_step() const { return sequences_per_step() * length; }
};

TrainPlan train_plan(const Settings& settings, const Task& task);

}  // namespace copylab
