// swiglu: the gated activation of Llama's MLP (Shazeer 2020).
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// gate and up of equal shape -> silu(gate) · up.
Tensor swiglu(Tape& tape, const Tensor& gate, const Tensor& up);

}  // namespace copylab::ops
