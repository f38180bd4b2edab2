// linear: y = x·Wᵀ + b, with gradients dx += dy·W, dW += dyᵀ·x, db += column sums of dy.
#include "core/ops/linear.h"

namespace copylab::ops {

Tensor linear(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  expect(x.shape().rank() >= 1 && weight.shape().rank() == 2 && x.dim(-1) == weight.dim(1), "linear",
         "x (…, in) and weight (out, in) must agree on in: got {}, {}", x.shape().str(),
         weight.shape().str());
  expect(!bias || bias.shape() == Shape{weight.dim(0)}, "linear", "bias ({},) expected: got {}",
         weight.dim(0), bias ? bias.shape().str() : "");
  const int64_t n = x.shape().rows(), in = weight.dim(1), out = weight.dim(0);
  Tensor y = tape.result(x.dtype(), x.shape().with_last(out), {x, weight, bias});
  dispatch_float(x.dtype(), "linear", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    k.linear(x.data<T>(), weight.data<T>(), bias ? bias.data<T>() : nullptr, y.data<T>(), n, in, out);
    tape.record("linear", {y}, {x, weight, bias}, [=, &k] {
      k.linear_backward(x.data<T>(), weight.data<T>(), y.grad<T>(), x.grad_or_null<T>(),
                        weight.grad_or_null<T>(), bias.grad_or_null<T>(), n, in, out);
    });
  });
  return y;
}

}  // namespace copylab::ops
