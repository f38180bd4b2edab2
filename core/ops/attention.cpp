// attention: out = softmax(scale·q·kᵀ + bias)·v over the visible past; backward recomputes the probabilities.
#include "core/ops/attention.h"

#include <cmath>

namespace copylab::ops {
namespace {

void expect_option(const Tensor& t, const char* name, const Shape& shape, DType dtype) {
  expect(!t || (t.shape() == shape && t.dtype() == dtype), "attention", "{} {} {} expected: got {} {}", name,
         name_of(dtype), shape.str(), t ? name_of(t.dtype()) : "", t ? t.shape().str() : "");
}

}  // namespace

Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  const Shape qs = q.shape(), ks = k.shape();
  expect(qs.rank() == 4 && ks.rank() == 4 && v.shape() == ks, "attention",
         "q (B, T, H, d) and k, v (B, T, G, d) expected: got {}, {}, {}", qs.str(), ks.str(),
         v.shape().str());
  expect(qs[0] == ks[0] && qs[1] == ks[1] && qs[3] == ks[3], "attention",
         "q and k must agree on B, T and d: got {}, {}", qs.str(), ks.str());
  expect(ks[2] > 0 && qs[2] % ks[2] == 0, "attention",
         "key/value heads must divide query heads: got {} heads, {} key/value heads", qs[2], ks[2]);
  expect(options.window >= 0, "attention", "window must not be negative: got {}", options.window);
  const int64_t batch = qs[0], length = qs[1], heads = qs[2], head_dim = qs[3];
  expect_option(options.bias, "bias", {length, length}, q.dtype());
  expect_option(options.allowed, "allowed", {batch, length, length}, DType::u8);
  expect_option(options.marked, "marked", {batch, length}, DType::u8);
  expect_option(options.segment, "segment", {batch, length}, DType::i32);

  Tensor out = tape.result(q.dtype(), qs, {q, k, v});
  const Tensor lse = tape.scratch(q.dtype(), {batch, heads, length});
  Tensor probs;
  if (!options.probe.empty() && tape.probing(options.probe))
    probs = tape.scratch(q.dtype(), {batch, heads, length, length});
  dispatch_float(q.dtype(), "attention", [&](auto tag) {
    using T = decltype(tag);
    const auto& kernels = tape.backend().kernels<T>();
    const double scale = options.scale != 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
    AttentionArgs<T> args{.batch = batch,
                          .length = length,
                          .heads = heads,
                          .kv_heads = ks[2],
                          .head_dim = head_dim,
                          .window = options.window,
                          .scale = static_cast<T>(scale),
                          .q = q.data<T>(),
                          .k = k.data<T>(),
                          .v = v.data<T>(),
                          .bias = options.bias ? options.bias.data<T>() : nullptr,
                          .allowed = options.allowed ? options.allowed.data<uint8_t>() : nullptr,
                          .marked = options.marked ? options.marked.data<uint8_t>() : nullptr,
                          .segment = options.segment ? options.segment.data<int32_t>() : nullptr,
                          .out = out.data<T>(),
                          .lse = lse.data<T>(),
                          .probs = probs ? probs.data<T>() : nullptr};
    kernels.attention(args);
    if (probs) tape.probe(options.probe, probs);
    if (!options.probe_lse.empty()) tape.probe(options.probe_lse, lse);
    args.probs = nullptr;
    tape.record("attention", {out}, {q, k, v}, [=, &kernels] {
      kernels.attention_backward(args, {.dout = out.grad<T>(),
                                        .dq = q.grad_or_null<T>(),
                                        .dk = k.grad_or_null<T>(),
                                        .dv = v.grad_or_null<T>()});
    });
  });
  return out;
}

}  // namespace copylab::ops
