// Elementwise kernels: SwiGLU, unary and binary functions, affine maps, dropout.
#pragma once

#include "core/cuda/kernels/map.h"
#include "core/cuda/kernels/philox.h"
#include "core/kernels.h"

namespace copylab::cuda {

// The functions of one number: value f(x), and derivative d(x, y) at x with y = f(x).
template <class T>
struct Sigmoid {
  static CL_DEVICE T f(T x) { return sigmoid(x); }
  static CL_DEVICE T d(T x, T) { return sigmoid_slope(x); }
};
template <class T>
struct Tanh {
  static CL_DEVICE T f(T x) { return std::tanh(x); }
  static CL_DEVICE T d(T, T y) { return T(1) - y * y; }
};
template <class T>
struct Silu {
  static CL_DEVICE T f(T x) { return silu(x); }
  static CL_DEVICE T d(T x, T) { return silu_slope(x); }
};
template <class T>
struct Relu {  // NaN stays NaN
  static CL_DEVICE T f(T x) { return x < 0 ? T(0) : x; }
  static CL_DEVICE T d(T x, T) { return x > 0 ? T(1) : T(0); }
};
template <class T>
struct Softplus {
  static CL_DEVICE T f(T x) { return softplus(x); }
  static CL_DEVICE T d(T x, T) { return sigmoid(x); }
};
template <class T>
struct LogSigmoid {
  static CL_DEVICE T f(T x) { return -softplus(-x); }
  static CL_DEVICE T d(T x, T) { return sigmoid(-x); }
};
template <class T>
struct Exp {
  static CL_DEVICE T f(T x) { return std::exp(x); }
  static CL_DEVICE T d(T, T y) { return y; }
};
template <class T>
struct Log {
  static CL_DEVICE T f(T x) { return std::log(x); }
  static CL_DEVICE T d(T x, T) { return T(1) / x; }
};
template <class T>
struct Square {
  static CL_DEVICE T f(T x) { return x * x; }
  static CL_DEVICE T d(T x, T) { return T(2) * x; }
};

// use(Sigmoid<T>{}) and so on, for the function that `op` names.
template <class T, class Use>
void with_unary(Unary op, Use&& use) {
  switch (op) {
    case Unary::sigmoid:
      return use(Sigmoid<T>{});
    case Unary::tanh:
      return use(Tanh<T>{});
    case Unary::silu:
      return use(Silu<T>{});
    case Unary::relu:
      return use(Relu<T>{});
    case Unary::softplus:
      return use(Softplus<T>{});
    case Unary::log_sigmoid:
      return use(LogSigmoid<T>{});
    case Unary::exp:
      return use(Exp<T>{});
    case Unary::log:
      return use(Log<T>{});
    case Unary::square:
      return use(Square<T>{});
  }
}

// nvcc takes no closure of a kernel inside a generic lambda: hence functions of their own.
template <class F, class T>
void map_unary(F, const T* x, T* y, int64_t n) {
  map(
      n, CL_LAMBDA(int64_t i) { y[i] = F::f(x[i]); });
}
template <class F, class T>
void map_unary_backward(F, const T* x, const T* y, const T* dy, T* dx, int64_t n) {
  map(
      n, CL_LAMBDA(int64_t i) { dx[i] += dy[i] * F::d(x[i], y[i]); });
}

template <class T>
void unary(Unary op, const T* x, T* y, int64_t n) {
  with_unary<T>(op, [&](auto function) { map_unary(function, x, y, n); });
}

template <class T>
void unary_backward(Unary op, const T* x, const T* y, const T* dy, T* dx, int64_t n) {
  if (dx) with_unary<T>(op, [&](auto function) { map_unary_backward(function, x, y, dy, dx, n); });
}

template <class T>
void binary(Binary op, const T* a, const T* b, T* y, int64_t n) {
  switch (op) {
    case Binary::add:
      return map(
          n, CL_LAMBDA(int64_t i) { y[i] = a[i] + b[i]; });
    case Binary::sub:
      return map(
          n, CL_LAMBDA(int64_t i) { y[i] = a[i] - b[i]; });
    case Binary::mul:
      return map(
          n, CL_LAMBDA(int64_t i) { y[i] = a[i] * b[i]; });
    case Binary::logaddexp:
      return map(
          n, CL_LAMBDA(int64_t i) { y[i] = log_add_exp(a[i], b[i]); });
  }
}

// Both gradients of an element belong to one thread, since a and b may be the same tensor.
template <class T>
void binary_backward(Binary op, const T* a, const T* b, const T* /*y*/, const T* dy, T* da, T* db,
                     int64_t n) {
  switch (op) {
    case Binary::add:
      return map(
          n, CL_LAMBDA(int64_t i) {
            if (da) da[i] += dy[i];
            if (db) db[i] += dy[i];
          });
    case Binary::sub:
      return map(
          n, CL_LAMBDA(int64_t i) {
            if (da) da[i] += dy[i];
            if (db) db[i] -= dy[i];
          });
    case Binary::mul:
      return map(
          n, CL_LAMBDA(int64_t i) {
            if (da) da[i] += dy[i] * b[i];
            if (db) db[i] += dy[i] * a[i];
          });
    case Binary::logaddexp:
      return map(
          n, CL_LAMBDA(int64_t i) {
            if (da) da[i] += dy[i] * share(a[i], b[i]);
            if (db) db[i] += dy[i] * share(b[i], a[i]);
          });
  }
}

template <class T>
void swiglu(const T* gate, const T* up, T* y, int64_t n) {
  map(
      n, CL_LAMBDA(int64_t i) { y[i] = silu(gate[i]) * up[i]; });
}

template <class T>
void swiglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t n) {
  map(
      n, CL_LAMBDA(int64_t i) {
        const T g = gate[i], d = dy[i];
        if (dgate) dgate[i] += d * up[i] * silu_slope(g);
        if (dup) dup[i] += d * silu(g);
      });
}

template <class T>
void affine(const T* x, T alpha, T beta, T* y, int64_t n, bool add) {
  map(
      n, CL_LAMBDA(int64_t i) { y[i] = (add ? y[i] : T(0)) + (alpha * x[i] + beta); });
}

template <class T>
void scale_by(const T* x, const T* s, T* y, int64_t n) {
  map(
      n, CL_LAMBDA(int64_t i) { y[i] = *s * x[i]; });
}

template <class T>
void scale_by_backward(const T* x, const T* s, const T* dy, T* dx, T* ds, int64_t n) {
  if (dx)
    map(
        n, CL_LAMBDA(int64_t i) { dx[i] += *s * dy[i]; });
  if (ds)
    total(
        n, CL_LAMBDA(int64_t i) { return double(dy[i]) * double(x[i]); },
        CL_LAMBDA(double sum) { *ds += static_cast<T>(sum); });
}

template <class T>
void weighted_sum_backward(const T* w, const T* dy, T* dx, int64_t n) {
  map(
      n, CL_LAMBDA(int64_t i) { dx[i] += w ? *dy * w[i] : *dy; });
}

template <class T>
void dropout(const T* x, T* y, int64_t n, T rate, uint64_t key, uint64_t step, bool add) {
  const T scale = T(1) / (T(1) - rate);
  const uint32_t threshold = random_threshold(rate);
  map(
      ceil_div(n, 4), CL_LAMBDA(int64_t group) {
        const auto words = random_block(key, step, group);
        for (int64_t i = 4 * group; i < minimum(n, 4 * group + 4); ++i) {
          const T value = words[i % 4] < threshold ? T(0) : x[i] * scale;
          y[i] = add ? y[i] + value : value;
        }
      });
}

template <class T>
void locked_dropout(const T* x, T* y, int64_t batch, int64_t length, int64_t dim, T rate, uint64_t key,
                    uint64_t step, bool add) {
  const T scale = T(1) / (T(1) - rate);
  const uint32_t threshold = random_threshold(rate);
  map(
      batch * length * dim, CL_LAMBDA(int64_t i) {
        const int64_t element = i / (length * dim) * dim + i % dim;
        const bool dropped = random_block(key, step, element / 4)[element % 4] < threshold;
        const T value = dropped ? T(0) : x[i] * scale;
        y[i] = add ? y[i] + value : value;
      });
}

template <class T>
void fill_elementwise(KernelTable<T>& k) {
  k.swiglu = swiglu<T>;
  k.swiglu_backward = swiglu_backward<T>;
  k.unary = unary<T>;
  k.unary_backward = unary_backward<T>;
  k.binary = binary<T>;
  k.binary_backward = binary_backward<T>;
  k.affine = affine<T>;
  k.scale_by = scale_by<T>;
  k.scale_by_backward = scale_by_backward<T>;
  k.weighted_sum_backward = weighted_sum_backward<T>;
  k.dropout = dropout<T>;
  k.locked_dropout = locked_dropout<T>;
}

}  // namespace copylab::cuda
