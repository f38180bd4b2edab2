// scale_by: a tensor times one learned number.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (…), s (1) -> x · s, shape of x; both get gradients.
Tensor scale_by(Tape& tape, const Tensor& x, const Tensor& s);

}  // namespace copylab::ops
