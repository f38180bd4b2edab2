// layer_norm: y = (x - mean) / std · weight + bias over the last dimension.
#include "core/ops/layer_norm.h"

namespace copylab::ops {

Tensor layer_norm(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  expect(x.shape().rank() >= 1 && (!weight || weight.shape() == Shape{x.dim(-1)}) &&
             (!bias || bias.shape() == Shape{x.dim(-1)}),
         "layer_norm", "x (…, D), weight (D,) and bias (D,) must agree on D: got {}, {}, {}", x.shape().str(),
         weight ? weight.shape().str() : "none", bias ? bias.shape().str() : "none");
  const int64_t n = x.shape().rows(), dim = x.dim(-1);
  Tensor y = tape.result(x.dtype(), x.shape(), {x, weight, bias});
  Tensor mean = tape.scratch(x.dtype(), {n}), inv_std = tape.scratch(x.dtype(), {n});
  dispatch_float(x.dtype(), "layer_norm", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    k.layer_norm(x.data<T>(), weight ? weight.data<T>() : nullptr, bias ? bias.data<T>() : nullptr,
                 y.data<T>(), mean.data<T>(), inv_std.data<T>(), n, dim, static_cast<T>(eps));
    tape.record("layer_norm", {y}, {x, weight, bias}, [=, &k] {
      k.layer_norm_backward(x.data<T>(), weight ? weight.data<T>() : nullptr, mean.data<T>(),
                            inv_std.data<T>(), y.grad<T>(), x.grad_or_null<T>(), weight.grad_or_null<T>(),
                            bias.grad_or_null<T>(), n, dim);
    });
  });
  return y;
}

}  // namespace copylab::ops
