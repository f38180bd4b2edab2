// Decoding: greedy continuation of prompts by a trained model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/nn/model.h"

namespace copylab {

struct DecodeOptions {
  int64_t tokens = 0;   // to append to each prompt
  int64_t context = 0;  // most tokens that the model reads at once: older ones are forgotten, except by a
                        // model that carries its context on
  std::string mode = "natural";  // natural, no_copy or force_copy (HeadOutput)
  double lm_floor = 0;           // natural mode: least share of the LM head (ModelInput)
  int32_t meta_token = -1;       // id that is marked as a meta-token wherever it stands; -1: none is
};

// Prompts of equal, positive length -> the ids appended to each, most probable first at every step; ties go
// to the smaller id. Throws ConfigError where mode force_copy finds no pointer.
std::vector<std::vector<int32_t>> decode(const nn::Model& model,
                                         const std::vector<std::vector<int32_t>>& prompts,
                                         const DecodeOptions& options);

}  // namespace copylab
