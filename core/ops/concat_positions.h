// concat_positions: sequences joined along their positions.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// a (B, M, D), b (B, T, D) -> (B, M+T, D): the positions of a, then those of b.
Tensor concat_positions(Tape& tape, const Tensor& a, const Tensor& b);

}  // namespace copylab::ops
