// scatter_rows: y = 0, y[index[i]] += x[i] in order of i, with gradient dx[i] += dy[index[i]].
#include "core/ops/scatter_rows.h"

namespace copylab::ops {

Tensor scatter_rows(Tape& tape, const Tensor& x, const Tensor& index, int64_t rows) {
  expect(x.shape().rank() == 2 && index.shape() == Shape{x.dim(0)}, "scatter_rows",
         "x (n, D) and index (n,) expected: got {}, {}", x.shape().str(), index.shape().str());
  const int64_t n = x.dim(0), dim = x.dim(1);
  Tensor y = tape.result(x.dtype(), {rows, dim}, {x});
  dispatch_float(x.dtype(), "scatter_rows", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    tape.backend().fill_zero(y.data<T>(), sizeof(T) * y.size());
    k.scatter_rows_add(x.data<T>(), index.data<int32_t>(), y.data<T>(), n, dim, rows);
    tape.record("scatter_rows", {y}, {x}, [=, &k] {
      k.gather_rows(y.grad<T>(), index.data<int32_t>(), x.grad<T>(), n, dim, rows, true);
    });
  });
  return y;
}

}  // namespace copylab::ops
