// copy_mixture: the mixture and its gradients in log space (papers: CPLM §2.3, §2.6).
#include "core/ops/copy_mixture.h"

namespace copylab::ops {

Tensor copy_mixture(Tape& tape, const Tensor& lm, const Tensor& gate_logit, const Tensor& log_copy,
                    const Tensor& log_sink, double gate_floor, bool drop_sink) {
  const Shape shape = lm.shape();
  expect(gate_logit.shape() == shape && log_copy.shape() == shape && log_sink.shape() == shape,
         "copy_mixture", "lm, gate_logit, log_copy and log_sink of one shape expected: got {}, {}, {}, {}",
         shape.str(), gate_logit.shape().str(), log_copy.shape().str(), log_sink.shape().str());
  expect(gate_floor >= 0 && gate_floor < 1, "copy_mixture", "gate_floor in [0, 1) expected: got {}",
         gate_floor);
  Tensor nll = tape.result(lm.dtype(), shape, {lm, gate_logit, log_copy, log_sink});
  dispatch_float(lm.dtype(), "copy_mixture", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const CopyMixtureArgs<T> args{.n = shape.size(),
                                  .gate_floor = static_cast<T>(gate_floor),
                                  .drop_sink = drop_sink,
                                  .lm = lm.data<T>(),
                                  .gate_logit = gate_logit.data<T>(),
                                  .log_copy = log_copy.data<T>(),
                                  .log_sink = log_sink.data<T>(),
                                  .nll = nll.data<T>()};
    k.copy_mixture(args);
    tape.record("copy_mixture", {nll}, {lm, gate_logit, log_copy, log_sink}, [=, &k] {
      k.copy_mixture_backward(args, {.dnll = nll.grad<T>(),
                                     .dlm = lm.grad_or_null<T>(),
                                     .dgate_logit = gate_logit.grad_or_null<T>(),
                                     .dlog_copy = log_copy.grad_or_null<T>(),
                                     .dlog_sink = log_sink.grad_or_null<T>()});
    });
  });
  return nll;
}

}  // namespace copylab::ops
