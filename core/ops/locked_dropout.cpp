// locked_dropout: as dropout, no mask is stored.
#include "core/ops/locked_dropout.h"

namespace copylab::ops {

Tensor locked_dropout(Tape& tape, const Tensor& x, double rate, const Random& mask) {
  expect(x.shape().rank() == 3, "locked_dropout", "x (B, T, D) expected: got {}", x.shape().str());
  expect(rate >= 0 && rate < 1, "locked_dropout", "a rate in [0, 1) expected: got {}", rate);
  if (!tape.options().training || rate == 0) return x;
  Tensor y = tape.result(x.dtype(), x.shape(), {x});
  dispatch_float(x.dtype(), "locked_dropout", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t batch = x.dim(0), length = x.dim(1), dim = x.dim(2);
    const T p = static_cast<T>(rate);
    const uint64_t key = mask.key(), step = mask.step();
    k.locked_dropout(x.data<T>(), y.data<T>(), batch, length, dim, p, key, step, false);
    tape.record("locked_dropout", {y}, {x}, [=, &k] {
      k.locked_dropout(y.grad<T>(), x.grad<T>(), batch, length, dim, p, key, step, true);
    });
  });
  return y;
}

}  // namespace copylab::ops
