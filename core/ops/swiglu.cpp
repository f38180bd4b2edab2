// swiglu: y = silu(gate) · up.
#include "core/ops/swiglu.h"

namespace copylab::ops {

Tensor swiglu(Tape& tape, const Tensor& gate, const Tensor& up) {
  expect(gate.shape() == up.shape(), "swiglu", "equal shapes expected: got {}, {}", gate.shape().str(),
         up.shape().str());
  Tensor y = tape.result(gate.dtype(), gate.shape(), {gate, up});
  dispatch_float(gate.dtype(), "swiglu", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t n = y.size();
    k.swiglu(gate.data<T>(), up.data<T>(), y.data<T>(), n);
    tape.record("swiglu", {y}, {gate, up}, [=, &k] {
      k.swiglu_backward(gate.data<T>(), up.data<T>(), y.grad<T>(), gate.grad_or_null<T>(),
                        up.grad_or_null<T>(), n);
    });
  });
  return y;
}

}  // namespace copylab::ops
