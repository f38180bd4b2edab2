// project_gradient: identity forward; backward lets only a subspace of the gradient through.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// x (…, D) -> x. The gradient of each row is projected on the columns of `basis` (D, r), orthonormal, and all
// rows are scaled by one factor that keeps the root mean square over the whole tensor. With it in front of
// the output head, logits and head update are exact and only the backbone's gradient has rank r (papers §1.6,
// backward-only rank control).
Tensor project_gradient(Tape& tape, const Tensor& x, const Tensor& basis);

}  // namespace copylab::ops
