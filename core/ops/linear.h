// linear: y = x·Wᵀ + b.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (…, in), weight (out, in), bias (out) or undefined -> (…, out).
Tensor linear(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace copylab::ops
