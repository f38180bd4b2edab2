// rms_norm: y = x / rms(x) · weight over the last dimension.
#include "core/ops/rms_norm.h"

namespace copylab::ops {

Tensor rms_norm(Tape& tape, const Tensor& x, const Tensor& weight, double eps) {
  expect(x.shape().rank() >= 1 && (!weight || weight.shape() == Shape{x.dim(-1)}), "rms_norm",
         "x (…, D) and weight (D,) must agree on D: got {}, {}", x.shape().str(),
         weight ? weight.shape().str() : "none");
  const int64_t n = x.shape().rows(), dim = x.dim(-1);
  Tensor y = tape.result(x.dtype(), x.shape(), {x, weight});
  Tensor inv_rms = tape.scratch(x.dtype(), {n});
  dispatch_float(x.dtype(), "rms_norm", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    k.rms_norm(x.data<T>(), weight ? weight.data<T>() : nullptr, y.data<T>(), inv_rms.data<T>(), n, dim,
               static_cast<T>(eps));
    tape.record("rms_norm", {y}, {x, weight}, [=, &k] {
      k.rms_norm_backward(x.data<T>(), weight ? weight.data<T>() : nullptr, inv_rms.data<T>(), y.grad<T>(),
                          x.grad_or_null<T>(), weight.grad_or_null<T>(), n, dim);
    });
  });
  return y;
}

}  // namespace copylab::ops
