// reduce: sums and means over all elements, what a loss ends in.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (…), weights of equal size (constant: they get no gradient) or undefined (ones) -> (1), sum of x ·
// weight. Accumulated in double, in a fixed order. An entry of weight 0 counts as 0 only where x is finite.
Tensor weighted_sum(Tape& tape, const Tensor& x, const Tensor& weights = {});

// x (…) -> (1), the mean of all elements; over labelled rows: gather them first. The mean of nothing is 0.
Tensor mean(Tape& tape, const Tensor& x);

}  // namespace copylab::ops
