// layer_norm: each row shifted to mean 0 and scaled to variance 1 (Ba et al. 2016).
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (…, D), weight (D) or undefined (ones), bias (D) or undefined (zeros)
// -> (x - mean) / sqrt(variance + eps) · weight + bias, shape of x; the variance divides by D.
Tensor layer_norm(Tape& tape, const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

}  // namespace copylab::ops
