// pointer: softmax over the scores of past keys and the sink; gradients of the target's and the sink's mass.
#include "core/ops/pointer.h"

#include <cmath>

namespace copylab::ops {

PointerResult pointer(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& sink, const Tensor& tokens,
                      const Tensor& targets, const PointerOptions& options) {
  const Shape qs = q.shape();
  const Shape ks = k.shape();
  expect(qs.rank() == 3 && ks.rank() == 3 && ks[0] == qs[0] && ks[1] >= qs[1] && ks[2] == qs[2], "pointer",
         "q (B, T, d) and k (B, T or more, d) expected: got {}, {}", qs.str(), ks.str());
  const int64_t batch = qs[0], length = qs[1], dim = qs[2];
  const Shape rows{batch, length}, keys{batch, ks[1]};
  expect(!sink || sink.shape() == rows, "pointer", "sink {} expected: got {}", rows.str(),
         sink ? sink.shape().str() : "");
  expect(tokens.shape() == keys && targets.shape() == rows, "pointer",
         "tokens {} and targets {} expected: got {}, {}", keys.str(), rows.str(), tokens.shape().str(),
         targets.shape().str());
  expect(!options.segment || options.segment.shape() == keys, "pointer", "segment {} expected: got {}",
         keys.str(), options.segment ? options.segment.shape().str() : "");
  expect(options.window >= 0, "pointer", "window must not be negative: got {}", options.window);

  const DType dtype = q.dtype();
  PointerResult result;
  result.log_copy = tape.result(dtype, rows, {q, k, sink});
  result.log_sink = tape.result(dtype, rows, {q, k, sink});
  const bool probed = !options.probe.empty() && tape.probing(options.probe);
  if (options.want_weights || probed) result.weights = tape.scratch(dtype, {batch, length, ks[1]});
  const Tensor lse = tape.scratch(dtype, rows);
  dispatch_float(dtype, "pointer", [&](auto tag) {
    using T = decltype(tag);
    const auto& kernels = tape.backend().kernels<T>();
    const double scale = options.scale != 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(dim));
    PointerArgs<T> args{.batch = batch,
                        .length = length,
                        .dim = dim,
                        .memory = ks[1] - length,
                        .window = options.window,
                        .shift = options.next_token ? 1 : 0,
                        .copy_self = options.copy_self,
                        .scale = static_cast<T>(scale),
                        .q = q.data<T>(),
                        .k = k.data<T>(),
                        .sink = sink ? sink.data<T>() : nullptr,
                        .tokens = tokens.data<int32_t>(),
                        .targets = targets.data<int32_t>(),
                        .segment = options.segment ? options.segment.data<int32_t>() : nullptr,
                        .log_copy = result.log_copy.data<T>(),
                        .log_sink = result.log_sink.data<T>(),
                        .lse = lse.data<T>(),
                        .weights = result.weights ? result.weights.data<T>() : nullptr};
    kernels.pointer(args);
    if (probed) tape.probe(options.probe, result.weights);
    args.weights = nullptr;
    const Tensor log_copy = result.log_copy, log_sink = result.log_sink;
    tape.record("pointer", {log_copy, log_sink}, {q, k, sink}, [=, &kernels] {
      kernels.pointer_backward(args, {.dlog_copy = log_copy.has_grad() ? log_copy.grad<T>() : nullptr,
                                      .dlog_sink = log_sink.has_grad() ? log_sink.grad<T>() : nullptr,
                                      .dq = q.grad_or_null<T>(),
                                      .dk = k.grad_or_null<T>(),
                                      .dsink = sink.grad_or_null<T>()});
    });
  });
  return result;
}

}  // namespace copylab::ops
