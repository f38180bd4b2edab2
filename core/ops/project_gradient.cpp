// project_gradient: y = x; dx += c·dy·B·Bᵀ with c such that the root mean square of dy is kept.
#include "core/ops/project_gradient.h"

namespace copylab::ops {

Tensor project_gradient(Tape& tape, const Tensor& x, const Tensor& basis) {
  expect(x.shape().rank() >= 1 && basis.shape().rank() == 2 && basis.dim(0) == x.dim(-1), "project_gradient",
         "x (…, D) and basis (D, r) must agree on D: got {}, {}", x.shape().str(), basis.shape().str());
  expect(basis.dim(1) <= basis.dim(0), "project_gradient", "rank at most {} expected: got {}", basis.dim(0),
         basis.dim(1));
  const int64_t n = x.shape().rows(), dim = basis.dim(0), rank = basis.dim(1);
  Tensor y = tape.result(x.dtype(), x.shape(), {x});
  dispatch_float(x.dtype(), "project_gradient", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    k.affine(x.data<T>(), T(1), T(0), y.data<T>(), x.size(), false);
    tape.record("project_gradient", {y}, {x},
                [=, &k] { k.project_rows(y.grad<T>(), basis.data<T>(), x.grad<T>(), n, dim, rank, true); });
  });
  return y;
}

}  // namespace copylab::ops
