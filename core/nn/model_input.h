// ModelInput: one batch as a model reads it, backbone and head alike.
#pragma once

#include "core/tensor.h"

namespace copylab::nn {

struct ModelInput {
  Tensor tokens;             // (B, T) int32
  Tensor targets;            // (B, T) int32, negative = no label
  Tensor segment;            // (B, T) int32, or undefined: one document per sequence
  bool want_argmax = false;  // evaluation: fill the argmax outputs
};

}  // namespace copylab::nn
