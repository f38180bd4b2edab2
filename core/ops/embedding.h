// embedding: rows of a table, by token id.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// table (V, D), ids int32 (…) in 0..V-1 -> (…, D). The gradient touches only rows that occur, and adds the
// positions of one id in order.
Tensor embedding(Tape& tape, const Tensor& table, const Tensor& ids);

}  // namespace copylab::ops
