// elementwise: functions of one or two tensors, element by element. Results have the shape of the inputs.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

// Two tensors of equal shape.
Tensor add(Tape& tape, const Tensor& a, const Tensor& b);
Tensor sub(Tape& tape, const Tensor& a, const Tensor& b);
Tensor mul(Tape& tape, const Tensor& a, const Tensor& b);
// log(exp(a) + exp(b)). -inf is log 0: -inf with -inf gives -inf, and gradients of -inf are 0.
Tensor logaddexp(Tape& tape, const Tensor& a, const Tensor& b);

// alpha · x + beta, with fixed numbers.
Tensor affine(Tape& tape, const Tensor& x, double alpha, double beta);
inline Tensor scale(Tape& tape, const Tensor& x, double alpha) {
  return affine(tape, x, alpha, 0.0);
}
inline Tensor neg(Tape& tape, const Tensor& x) {
  return affine(tape, x, -1.0, 0.0);
}
inline Tensor add_scalar(Tape& tape, const Tensor& x, double beta) {
  return affine(tape, x, 1.0, beta);
}

Tensor sigmoid(Tape& tape, const Tensor& x);
Tensor tanh(Tape& tape, const Tensor& x);
Tensor silu(Tape& tape, const Tensor& x);      // x · sigmoid(x)
Tensor relu(Tape& tape, const Tensor& x);      // gradient 0 at 0
Tensor softplus(Tape& tape, const Tensor& x);  // log(1 + exp(x)), accurate at both ends
// log sigmoid(x) = -softplus(-x): log alpha of a gate with logit x; of -x it is log(1 - alpha).
Tensor log_sigmoid(Tape& tape, const Tensor& x);
Tensor exp(Tape& tape, const Tensor& x);
Tensor log(Tape& tape, const Tensor& x);
Tensor square(Tape& tape, const Tensor& x);

}  // namespace copylab::ops
