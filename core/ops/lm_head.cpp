// lm_head: lse and chosen logits of h·Wᵀ, with gradients dh and dW from both; logits are recomputed backward.
#include "core/ops/lm_head.h"

namespace copylab::ops {

LmHeadResult lm_head(Tape& tape, const Tensor& h, const Tensor& w, const Tensor& columns, int64_t vocab,
                     const Tensor& excluded) {
  expect(h.shape().rank() == 2 && w.shape().rank() == 2 && h.dim(1) == w.dim(1), "lm_head",
         "h (N, D) and w (R, D) must agree on D: got {}, {}", h.shape().str(), w.shape().str());
  expect(h.dtype() == w.dtype(), "lm_head", "h and w of one type expected: got {}, {}", name_of(h.dtype()),
         name_of(w.dtype()));
  expect(columns.shape().rank() == 2 && columns.dim(0) == h.dim(0) && columns.dtype() == DType::i32,
         "lm_head", "columns ({}, K) int32 expected: got {} {}", h.dim(0), columns.shape().str(),
         name_of(columns.dtype()));
  expect(vocab >= 0 && vocab <= w.dim(0), "lm_head", "vocab in 0..{} (rows of w) expected: got {}", w.dim(0),
         vocab);
  expect(!excluded || (excluded.shape() == Shape{vocab} && excluded.dtype() == DType::u8), "lm_head",
         "excluded ({},) uint8 expected: got {}", vocab, excluded ? excluded.shape().str() : "");
  const int64_t n = h.dim(0), k = columns.dim(1);
  LmHeadResult r;
  r.lse = tape.result(h.dtype(), {n}, {h, w});
  r.logits = tape.result(h.dtype(), {n, k}, {h, w});
  r.shift = tape.scratch(h.dtype(), {n});
  r.argmax = tape.scratch(DType::i32, {n});
  dispatch_float(h.dtype(), "lm_head", [&](auto tag) {
    using T = decltype(tag);
    const auto& kernels = tape.backend().kernels<T>();
    const LmHeadArgs<T> args{.rows = n,
                             .dim = h.dim(1),
                             .vocab = vocab,
                             .weight_rows = w.dim(0),
                             .columns = k,
                             .h = h.data<T>(),
                             .w = w.data<T>(),
                             .column_ids = columns.data<int32_t>(),
                             .excluded = excluded ? excluded.data<uint8_t>() : nullptr,
                             .lse = r.lse.data<T>(),
                             .logits = r.logits.data<T>(),
                             .shift = r.shift.data<T>(),
                             .argmax = r.argmax.data<int32_t>()};
    kernels.lm_head(args);
    // columns and excluded are captured to keep their arrays alive.
    tape.record("lm_head", {r.lse, r.logits}, {h, w}, [=, &kernels, lse = r.lse, logits = r.logits] {
      kernels.lm_head_backward(args, {.dlse = lse.has_grad() ? lse.grad<T>() : nullptr,
                                      .dlogits = logits.has_grad() ? logits.grad<T>() : nullptr,
                                      .dh = h.grad_or_null<T>(),
                                      .dw = w.grad_or_null<T>()});
    });
  });
  return r;
}

}  // namespace copylab::ops
