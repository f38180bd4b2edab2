// dropout: y = x · mask / (1 - rate); no mask is stored, the backward pass draws the same one again.
#include "core/ops/dropout.h"

namespace copylab::ops {

Tensor dropout(Tape& tape, const Tensor& x, double rate) {
  expect(rate >= 0 && rate < 1, "dropout", "a rate in [0, 1) expected: got {}", rate);
  if (!tape.options().training || rate == 0) return x;
  const Random random = tape.random("dropout");
  Tensor y = tape.result(x.dtype(), x.shape(), {x});
  dispatch_float(x.dtype(), "dropout", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t n = x.size();
    const T p = static_cast<T>(rate);
    k.dropout(x.data<T>(), y.data<T>(), n, p, random.key(), random.step(), false);
    tape.record("dropout", {y}, {x},
                [=, &k] { k.dropout(y.grad<T>(), x.grad<T>(), n, p, random.key(), random.step(), true); });
  });
  return y;
}

}  // namespace copylab::ops
