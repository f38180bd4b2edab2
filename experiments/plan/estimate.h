// Estimate: what a run will cost, from its settings alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/settings.h"
#include "experiments/train/memory.h"
#include "experiments/train/train_plan.h"

namespace copylab {

struct Estimate {
  int64_t parameters = 0;  // trained numbers
  TrainPlan plan;
  MemoryEstimate memory;
  double flops_per_token = 0;                          // forward
  double evaluation_flops = 0;                         // on validation and test split
  double measure_flops = 0;                            // roughly
  std::vector<std::pair<std::string, double>> budget;  // facts of the task about this many sequences

  int64_t tokens() const { return plan.steps * plan.tokens_per_step(); }
  // Of a whole training: the backward pass costs twice the forward pass.
  double training_flops() const { return 3.0 * flops_per_token * static_cast<double>(tokens()); }
  double flops() const { return training_flops() + evaluation_flops + measure_flops; }
};

// Builds the task and declares the model, but allocates and runs nothing.
Estimate estimate(const Settings& settings);

// Throws ConfigError if settings that are right each by itself do not go together: heads that do not divide
// the width, a period longer than the sequence, a measure of more positions than the test split has.
void expect_consistent(const Settings& settings);

// Throws ConfigError if a model of `settings` cannot start from the weights of one of `parent`: they must
// have the same parameters.
void expect_continues(const Settings& parent, const Settings& settings);

// Multiply-adds times two per second that this machine reaches now on matrix products, measured in some 50
// ms.
double matrix_rate();

}  // namespace copylab
