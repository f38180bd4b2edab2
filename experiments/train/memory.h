// Memory: what a training run will need, from its settings alone.
#pragma once

#include <string>

#include "core/nn/model.h"
#include "core/settings.h"
#include "experiments/train/train_plan.h"

namespace copylab {

// Bytes. Activations are those of the step arena, values and gradients, of one forward pass of train.batch
// sequences with every position labelled; evaluation is what a validation batch adds.
struct MemoryEstimate {
  int64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, evaluation = 0;
  int64_t batch = 0;  // that `activations` is for

  int64_t total() const { return parameters + gradients + optimizer + activations + evaluation; }
  std::string text() const;  // "1.2 GiB (parameters 0.3, …)"
};

// The model's parameters need be declared only, not allocated.
MemoryEstimate estimate_memory(const Settings& settings, const TrainPlan& plan, const nn::Model& model);

int64_t available_memory();  // MemAvailable of /proc/meminfo, bytes; 0 if unknown

// What is wrong with starting a run that needs this much, with the largest train.batch that would fit, or "".
std::string memory_problem(const MemoryEstimate& estimate, int64_t available);

}  // namespace copylab
