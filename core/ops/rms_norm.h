// rms_norm: each row divided by its root mean square (Zhang & Sennrich 2019).
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (…, D), weight (D) or undefined (ones) -> x / sqrt(mean(x²) + eps) · weight, shape of x.
Tensor rms_norm(Tape& tape, const Tensor& x, const Tensor& weight = {}, double eps = 1e-5);

}  // namespace copylab::ops
