// gather_rows: chosen rows of a matrix, for instance the labelled ones.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (…, D) seen as rows (N, D), index int32 (n) with entries in 0..N-1 -> (n, D). Index -1 gives a row of
// zeros without gradient.
Tensor gather_rows(Tape& tape, const Tensor& x, const Tensor& index);

}  // namespace copylab::ops
