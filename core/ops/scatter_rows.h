// scatter_rows: rows put at chosen places of a matrix of zeros; the adjoint of gather_rows.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (n, D), index int32 (n) with entries in 0..rows-1 -> (rows, D). Rows with the same index are added in
// order, index -1 is left out.
Tensor scatter_rows(Tape& tape, const Tensor& x, const Tensor& index, int64_t rows);

}  // namespace copylab::ops
