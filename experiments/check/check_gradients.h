// The check behind `copylab check gradients`: whole-model gradients against finite differences in float64.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/settings.h"

namespace copylab {

struct GradientCheck {
  double worst = 0;  // largest difference over all parameters, relative to the largest entry of its array
  std::string parameter;  // where
  int64_t compared = 0;   // entries
};

// Central differences (step 1e-5, error O(step²)) of the mean loss of one batch, for up to `entries` entries
// spread over each parameter array. Where the task has no meta-tokens, every third token is taken for one. Of
// a stream task it is the second batch, under what the first one left, and has none.
GradientCheck check_model_gradient(const Settings& settings, int64_t entries);

// Every head, every option at each of its values, every choice of blocks, one at a time, and every head on an
// LSTM that reads streams. Options whose purpose is to send another gradient than that of the loss (detach,
// backward_rank) are left out. Returns 0, or 3 if one is off by more than 1e-6.
int check_gradients(std::ostream& out);

// The variants that check_gradients goes through, as assignments.
std::vector<std::vector<std::string>> head_variants();    // on a transformer
std::vector<std::vector<std::string>> stream_variants();  // on an LSTM
std::vector<std::vector<std::string>> block_variants();   // of a transformer

}  // namespace copylab
