// dropout: elements set to zero at random while training (Srivastava et al. 2014).
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x with each element kept with probability 1 - rate and scaled by 1 / (1 - rate). Returns x itself when the
// tape isn't training or rate is 0. The mask is the next stream of the tape's purpose "dropout".
Tensor dropout(Tape& tape, const Tensor& x, double rate);

}  // namespace copylab::ops
