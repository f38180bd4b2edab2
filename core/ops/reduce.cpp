// reduce: weighted_sum, with gradient dx += dy · weight, and mean on top of it.
#include "core/ops/reduce.h"

#include <algorithm>

#include "core/ops/elementwise.h"

namespace copylab::ops {

Tensor weighted_sum(Tape& tape, const Tensor& x, const Tensor& weights) {
  expect(!weights || weights.size() == x.size(), "weighted_sum",
         "one weight for each element expected: got {}, {}", x.shape().str(),
         weights ? weights.shape().str() : "");
  expect(!weights.requires_grad(), "weighted_sum", "weights have no gradient: detach them, or use mul");
  Tensor y = tape.result(x.dtype(), {1}, {x});
  dispatch_float(x.dtype(), "weighted_sum", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t n = x.size();
    k.weighted_sum(x.data<T>(), weights ? weights.data<T>() : nullptr, y.data<T>(), n);
    tape.record("weighted_sum", {y}, {x}, [=, &k] {
      k.weighted_sum_backward(weights ? weights.data<T>() : nullptr, y.grad<T>(), x.grad<T>(), n);
    });
  });
  return y;
}

Tensor mean(Tape& tape, const Tensor& x) {
  return scale(tape, weighted_sum(tape, x), 1.0 / std::max<int64_t>(1, x.size()));
}

}  // namespace copylab::ops
