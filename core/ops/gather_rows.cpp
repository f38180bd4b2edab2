// gather_rows: y[i] = x[index[i]], with gradient dx[index[i]] += dy[i] in order of i.
#include "core/ops/gather_rows.h"

namespace copylab::ops {

Tensor gather_rows(Tape& tape, const Tensor& x, const Tensor& index) {
  expect(x.shape().rank() >= 2 && index.shape().rank() == 1, "gather_rows",
         "x (…, D) and index (n,) expected: got {}, {}", x.shape().str(), index.shape().str());
  const int64_t n = index.size(), dim = x.dim(-1), rows = x.shape().rows();
  Tensor y = tape.result(x.dtype(), {n, dim}, {x});
  dispatch_float(x.dtype(), "gather_rows", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    k.gather_rows(x.data<T>(), index.data<int32_t>(), y.data<T>(), n, dim, rows, false);
    tape.record("gather_rows", {y}, {x}, [=, &k] {
      k.scatter_rows_add(y.grad<T>(), index.data<int32_t>(), x.grad<T>(), n, dim, rows);
    });
  });
  return y;
}

}  // namespace copylab::ops
