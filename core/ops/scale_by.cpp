// scale_by: y = x · s, with gradients dx += dy · s and ds += sum of dy · x.
#include "core/ops/scale_by.h"

namespace copylab::ops {

Tensor scale_by(Tape& tape, const Tensor& x, const Tensor& s) {
  expect(s.size() == 1, "scale_by", "one number as the scale expected: got {}", s.shape().str());
  Tensor y = tape.result(x.dtype(), x.shape(), {x, s});
  dispatch_float(x.dtype(), "scale_by", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t n = x.size();
    k.scale_by(x.data<T>(), s.data<T>(), y.data<T>(), n);
    tape.record("scale_by", {y}, {x, s}, [=, &k] {
      k.scale_by_backward(x.data<T>(), s.data<T>(), y.grad<T>(), x.grad_or_null<T>(), s.grad_or_null<T>(), n);
    });
  });
  return y;
}

}  // namespace copylab::ops
