// concat_positions: two gathers into one array; each gradient is scattered back to where its rows came from.
#include "core/ops/concat_positions.h"

namespace copylab::ops {

Tensor concat_positions(Tape& tape, const Tensor& a, const Tensor& b) {
  expect(a.shape().rank() == 3 && b.shape().rank() == 3 && a.dim(0) == b.dim(0) && a.dim(2) == b.dim(2),
         "concat_positions", "a (B, M, D) and b (B, T, D) expected: got {}, {}", a.shape().str(),
         b.shape().str());
  const int64_t batch = a.dim(0), before = a.dim(1), length = b.dim(1), dim = a.dim(2);
  const int64_t rows = batch * (before + length);
  std::vector<int32_t> of_a(rows, -1), of_b(rows, -1);  // rows of the result, -1: from the other
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t sequence = i / (before + length), t = i % (before + length);
    if (t < before)
      of_a[i] = static_cast<int32_t>(sequence * before + t);
    else
      of_b[i] = static_cast<int32_t>(sequence * length + t - before);
  }
  const Tensor index_a = tape.constant(of_a, {rows}), index_b = tape.constant(of_b, {rows});
  Tensor y = tape.result(a.dtype(), {batch, before + length, dim}, {a, b});
  dispatch_float(a.dtype(), "concat_positions", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    k.gather_rows(a.data<T>(), index_a.data<int32_t>(), y.data<T>(), rows, dim, batch * before, false);
    k.gather_rows(b.data<T>(), index_b.data<int32_t>(), y.data<T>(), rows, dim, batch * length, true);
    tape.record("concat_positions", {y}, {a, b}, [=, &k] {
      if (T* da = a.grad_or_null<T>())
        k.scatter_rows_add(y.grad<T>(), index_a.data<int32_t>(), da, rows, dim, batch * before);
      if (T* db = b.grad_or_null<T>())
        k.scatter_rows_add(y.grad<T>(), index_b.data<int32_t>(), db, rows, dim, batch * length);
    });
  });
  return y;
}

}  // namespace copylab::ops
