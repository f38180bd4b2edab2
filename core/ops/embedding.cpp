// embedding: y[i] = table[ids[i]], with gradient dtable[ids[i]] += dy[i] in order of i.
#include "core/ops/embedding.h"

namespace copylab::ops {

Tensor embedding(Tape& tape, const Tensor& table, const Tensor& ids) {
  expect(table.shape().rank() == 2 && ids.shape().rank() < Shape::kMaxRank, "embedding",
         "table (V, D) and ids of at most 3 dimensions expected: got {}, {}", table.shape().str(),
         ids.shape().str());
  const int64_t vocab = table.dim(0), dim = table.dim(1), n = ids.size();
  Tensor y = tape.result(table.dtype(), ids.shape().append(dim), {table});
  dispatch_float(table.dtype(), "embedding", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    k.embedding(table.data<T>(), ids.data<int32_t>(), y.data<T>(), n, dim, vocab);
    tape.record("embedding", {y}, {table}, [=, &k] {
      k.embedding_backward(ids.data<int32_t>(), y.grad<T>(), table.grad<T>(), n, dim, vocab);
    });
  });
  return y;
}

}  // namespace copylab::ops
