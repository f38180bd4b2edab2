// locked_dropout: dropout with one mask for all positions of a sequence (Gal and Ghahramani 2016).
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (B, T, D) with each of the B·D units kept at all positions with probability 1 - rate and scaled by 1 / (1
// - rate), or 0 at all of them. Returns x itself when the tape isn't training or rate is 0. `mask` is the
// stream that decides, tape.random("dropout"): two calls with one stream have one mask.
Tensor locked_dropout(Tape& tape, const Tensor& x, double rate, const Random& mask);

}  // namespace copylab::ops
