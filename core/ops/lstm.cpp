// lstm: the input product by linear, then the recurrence; gradients by back-propagation through time.
#include "core/ops/lstm.h"

#include "core/ops/linear.h"

namespace copylab::ops {
namespace {

void expect_optional(const Tensor& t, const char* name, const Shape& shape) {
  expect(!t || t.shape() == shape, "lstm", "{} {} expected: got {}", name, shape.str(),
         t ? t.shape().str() : "");
}

}  // namespace

LstmResult lstm(Tape& tape, const Tensor& x, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                const Tensor& b_hh, const Tensor& h0, const Tensor& c0, ZoneoutRates zoneout) {
  expect(x.shape().rank() == 3 && x.dim(1) > 0, "lstm", "x (B, T, I) with T > 0 expected: got {}",
         x.shape().str());
  expect(w_hh.shape().rank() == 2 && w_hh.dim(0) == 4 * w_hh.dim(1), "lstm", "w_hh (4H, H) expected: got {}",
         w_hh.shape().str());
  const int64_t batch = x.dim(0), length = x.dim(1), hidden = w_hh.dim(1);
  expect(w_ih.shape() == Shape{4 * hidden, x.dim(2)}, "lstm", "w_ih ({}, {}) expected: got {}", 4 * hidden,
         x.dim(2), w_ih.shape().str());
  expect_optional(b_hh, "b_hh", {4 * hidden});
  expect_optional(h0, "h0", {batch, hidden});
  expect_optional(c0, "c0", {batch, hidden});

  expect(zoneout.h >= 0 && zoneout.h < 1 && zoneout.c >= 0 && zoneout.c < 1, "lstm",
         "rates of zoneout in [0, 1) expected: got {}, {}", zoneout.h, zoneout.c);
  Zoneout zone{zoneout.h, zoneout.c, tape.options().training, 0, 0};
  if (zone.training && (zone.h > 0 || zone.c > 0)) {
    const Random random = tape.random("zoneout");
    zone.key = random.key();
    zone.step = random.step();
  }

  const DType dtype = x.dtype();
  const Tensor x_gates = linear(tape, x, w_ih, b_ih);
  Tensor zero;
  if (!h0 || !c0) {
    zero = tape.scratch(dtype, {batch, hidden});
    tape.arena().fill_zero(dtype == DType::f32 ? static_cast<void*>(zero.data<float>()) : zero.data<double>(),
                           size_of(dtype) * zero.size());
  }
  const Tensor h_first = h0 ? h0 : zero, c_first = c0 ? c0 : zero;
  LstmResult result;
  result.h = tape.result(dtype, {batch, length, hidden}, {x_gates, w_hh, b_hh, h0, c0});
  result.h_last = tape.result(dtype, {batch, hidden}, {x_gates, w_hh, b_hh, h0, c0});
  result.c_last = tape.result(dtype, {batch, hidden}, {x_gates, w_hh, b_hh, h0, c0});
  const Tensor c = result.c = tape.scratch(dtype, {batch, length, hidden});
  const Tensor gates = tape.scratch(dtype, {batch, length, 4 * hidden});
  dispatch_float(dtype, "lstm", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const LstmArgs<T> args{.batch = batch,
                           .length = length,
                           .hidden = hidden,
                           .zoneout = zone,
                           .x_gates = x_gates.data<T>(),
                           .w_hh = w_hh.data<T>(),
                           .bias = b_hh ? b_hh.data<T>() : nullptr,
                           .h0 = h_first.data<T>(),
                           .c0 = c_first.data<T>(),
                           .h = result.h.data<T>(),
                           .c = c.data<T>(),
                           .gates = gates.data<T>(),
                           .h_last = result.h_last.data<T>(),
                           .c_last = result.c_last.data<T>()};
    k.lstm(args);
    const auto gradient_of = [](const Tensor& t) { return t.has_grad() ? t.grad<T>() : nullptr; };
    tape.record("lstm", {result.h, result.h_last, result.c_last}, {x_gates, w_hh, b_hh, h0, c0}, [=, &k] {
      k.lstm_backward(args, {.dh = gradient_of(result.h),
                             .dh_last = gradient_of(result.h_last),
                             .dc_last = gradient_of(result.c_last),
                             .dx_gates = x_gates.grad_or_null<T>(),
                             .dw_hh = w_hh.grad_or_null<T>(),
                             .dbias = b_hh.grad_or_null<T>(),
                             .dh0 = h0.grad_or_null<T>(),
                             .dc0 = c0.grad_or_null<T>()});
    });
  });
  return result;
}

}  // namespace copylab::ops
