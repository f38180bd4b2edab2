// elementwise: one unary and one binary op that all the named functions share, and affine.
#include "core/ops/elementwise.h"

namespace copylab::ops {
namespace {

Tensor unary(Tape& tape, Unary op, const char* name, const Tensor& x) {
  Tensor y = tape.result(x.dtype(), x.shape(), {x});
  dispatch_float(x.dtype(), name, [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t n = x.size();
    k.unary(op, x.data<T>(), y.data<T>(), n);
    tape.record(name, {y}, {x},
                [=, &k] { k.unary_backward(op, x.data<T>(), y.data<T>(), y.grad<T>(), x.grad<T>(), n); });
  });
  return y;
}

Tensor binary(Tape& tape, Binary op, const char* name, const Tensor& a, const Tensor& b) {
  expect(a.shape() == b.shape(), name, "equal shapes expected: got {}, {}", a.shape().str(), b.shape().str());
  Tensor y = tape.result(a.dtype(), a.shape(), {a, b});
  dispatch_float(a.dtype(), name, [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t n = a.size();
    k.binary(op, a.data<T>(), b.data<T>(), y.data<T>(), n);
    tape.record(name, {y}, {a, b}, [=, &k] {
      k.binary_backward(op, a.data<T>(), b.data<T>(), y.data<T>(), y.grad<T>(), a.grad_or_null<T>(),
                        b.grad_or_null<T>(), n);
    });
  });
  return y;
}

}  // namespace

Tensor add(Tape& tape, const Tensor& a, const Tensor& b) {
  return binary(tape, Binary::add, "add", a, b);
}
Tensor sub(Tape& tape, const Tensor& a, const Tensor& b) {
  return binary(tape, Binary::sub, "sub", a, b);
}
Tensor mul(Tape& tape, const Tensor& a, const Tensor& b) {
  return binary(tape, Binary::mul, "mul", a, b);
}
Tensor logaddexp(Tape& tape, const Tensor& a, const Tensor& b) {
  return binary(tape, Binary::logaddexp, "logaddexp", a, b);
}

Tensor affine(Tape& tape, const Tensor& x, double alpha, double beta) {
  Tensor y = tape.result(x.dtype(), x.shape(), {x});
  dispatch_float(x.dtype(), "affine", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t n = x.size();
    const T a = static_cast<T>(alpha);
    k.affine(x.data<T>(), a, static_cast<T>(beta), y.data<T>(), n, false);
    tape.record("affine", {y}, {x}, [=, &k] { k.affine(y.grad<T>(), a, T(0), x.grad<T>(), n, true); });
  });
  return y;
}

Tensor sigmoid(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::sigmoid, "sigmoid", x);
}
Tensor tanh(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::tanh, "tanh", x);
}
Tensor silu(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::silu, "silu", x);
}
Tensor relu(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::relu, "relu", x);
}
Tensor softplus(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::softplus, "softplus", x);
}
Tensor log_sigmoid(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::log_sigmoid, "log_sigmoid", x);
}
Tensor exp(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::exp, "exp", x);
}
Tensor log(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::log, "log", x);
}
Tensor square(Tape& tape, const Tensor& x) {
  return unary(tape, Unary::square, "square", x);
}

}  // namespace copylab::ops
