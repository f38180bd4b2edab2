// A hash of all that some updates of training compute, for checks that ask for the same bits.
#pragma once

#include <cstdint>

#include "core/backend.h"
#include "core/settings.h"

namespace copylab {

struct TrainingHash {
  uint64_t hash;              // of all weights, losses and norms, in float32
  StepGraph::Counts graph{};  // how the updates ran, if as a graph
};
TrainingHash training_hash(const Backend& backend, const Settings& settings, int64_t updates);

}  // namespace copylab
