// copy_mixture: -log p of the mixture of a language-model head and a pointer under a gate.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// All of one shape: lm = log P~(y) over the real vocabulary; gate_logit, alpha = sigmoid of it; log_copy and
// log_sink from pointer. -> nll = -log(P~(y)·(1 - a + a·a_sink) + a·pi(y)), a = gate_floor + (1 -
// gate_floor)·alpha (papers: CPLM §2.3; §2.5 variants A, G, and I with a floor). `drop_sink` leaves out
// a·a_sink (variant B: the sink's mass is lost). gate_floor in [0, 1).
Tensor copy_mixture(Tape& tape, const Tensor& lm, const Tensor& gate_logit, const Tensor& log_copy,
                    const Tensor& log_sink, double gate_floor = 0, bool drop_sink = false);

}  // namespace copylab::ops
