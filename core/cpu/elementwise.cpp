// Elementwise kernels: SwiGLU, unary and binary functions, affine maps, dropout.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"
#include "core/random.h"

namespace copylab::cpu {
namespace {

constexpr int64_t kChunk = 1 << 13;  // elements of a task

// f(i) for i = 0..n-1, in parallel chunks.
template <class F>
void for_each(int64_t n, F&& f) {
  parallel_chunks(n, kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// y[i] = value, or y[i] += value.
template <class T, class F>
void write(T* y, int64_t n, bool add, F&& value) {
  if (add)
    for_each(n, [&](int64_t i) { y[i] += value(i); });
  else
    for_each(n, [&](int64_t i) { y[i] = value(i); });
}

// Functions of one number. Each has a value f(x) and the derivative d(x, y) at x with y = f(x).

template <class T>
T sigmoid_of(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// sigmoid(x) · sigmoid(-x), without the cancellation of y · (1 - y).
template <class T>
T sigmoid_slope(T x) {
  const T e = std::exp(-std::abs(x));
  return e / ((T(1) + e) * (T(1) + e));
}

// log(1 + exp(x)), exact at both ends.
template <class T>
T softplus_of(T x) {
  return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
}

struct Sigmoid {
  template <class T>
  static T f(T x) {
    return sigmoid_of(x);
  }
  template <class T>
  static T d(T x, T) {
    return sigmoid_slope(x);
  }
};
struct Tanh {
  template <class T>
  static T f(T x) {
    return std::tanh(x);
  }
  template <class T>
  static T d(T, T y) {
    return T(1) - y * y;
  }
};
struct Silu {
  template <class T>
  static T f(T x) {
    return x * sigmoid_of(x);
  }
  template <class T>
  static T d(T x, T) {
    const T s = sigmoid_of(x);
    return s * (T(1) + x * (T(1) - s));
  }
};
struct Relu {
  template <class T>
  static T f(T x) {
    return x > T(0) ? x : T(0);
  }
  template <class T>
  static T d(T x, T) {
    return x > T(0) ? T(1) : T(0);
  }
};
struct Softplus {
  template <class T>
  static T f(T x) {
    return softplus_of(x);
  }
  template <class T>
  static T d(T x, T) {
    return sigmoid_of(x);
  }
};
struct LogSigmoid {
  template <class T>
  static T f(T x) {
    return -softplus_of(-x);
  }
  template <class T>
  static T d(T x, T) {
    return sigmoid_of(-x);
  }
};
struct Exp {
  template <class T>
  static T f(T x) {
    return std::exp(x);
  }
  template <class T>
  static T d(T, T y) {
    return y;
  }
};
struct Log {
  template <class T>
  static T f(T x) {
    return std::log(x);
  }
  template <class T>
  static T d(T x, T) {
    return T(1) / x;
  }
};
struct Square {
  template <class T>
  static T f(T x) {
    return x * x;
  }
  template <class T>
  static T d(T x, T) {
    return T(2) * x;
  }
};

// g(Sigmoid{}) and so on for the function that `op` names.
template <class G>
void with_unary(Unary op, G&& g) {
  switch (op) {
    case Unary::sigmoid:
      return g(Sigmoid{});
    case Unary::tanh:
      return g(Tanh{});
    case Unary::silu:
      return g(Silu{});
    case Unary::relu:
      return g(Relu{});
    case Unary::softplus:
      return g(Softplus{});
    case Unary::log_sigmoid:
      return g(LogSigmoid{});
    case Unary::exp:
      return g(Exp{});
    case Unary::log:
      return g(Log{});
    case Unary::square:
      return g(Square{});
  }
}

template <class T>
void unary(Unary op, const T* x, T* y, int64_t n) {
  with_unary(op, [&](auto function) {
    using F = decltype(function);
    for_each(n, [=](int64_t i) { y[i] = F::f(x[i]); });
  });
}

template <class T>
void unary_backward(Unary op, const T* x, const T* y, const T* dy, T* dx, int64_t n) {
  if (!dx) return;
  with_unary(op, [&](auto function) {
    using F = decltype(function);
    for_each(n, [=](int64_t i) { dx[i] += dy[i] * F::d(x[i], y[i]); });
  });
}

// log(exp(a) + exp(b)); -inf stands for log 0, on either side or on both.
template <class T>
T logaddexp_of(T a, T b) {
  const T high = std::max(a, b), low = std::min(a, b);
  if (std::isinf(high)) return high;
  return high + std::log1p(std::exp(low - high));
}

template <class T>
void binary(Binary op, const T* a, const T* b, T* y, int64_t n) {
  switch (op) {
    case Binary::add:
      return for_each(n, [=](int64_t i) { y[i] = a[i] + b[i]; });
    case Binary::sub:
      return for_each(n, [=](int64_t i) { y[i] = a[i] - b[i]; });
    case Binary::mul:
      return for_each(n, [=](int64_t i) { y[i] = a[i] * b[i]; });
    case Binary::logaddexp:
      return for_each(n, [=](int64_t i) { y[i] = logaddexp_of(a[i], b[i]); });
  }
}

// The two gradients are added one after the other, since a and b may be the same tensor.
template <class T>
void binary_backward(Binary op, const T* a, const T* b, const T* y, const T* dy, T* da, T* db, int64_t n) {
  const auto add = [n](T* to, auto&& value) {
    if (to) write(to, n, true, value);
  };
  switch (op) {
    case Binary::add:
      add(da, [=](int64_t i) { return dy[i]; });
      add(db, [=](int64_t i) { return dy[i]; });
      return;
    case Binary::sub:
      add(da, [=](int64_t i) { return dy[i]; });
      add(db, [=](int64_t i) { return -dy[i]; });
      return;
    case Binary::mul:
      add(da, [=](int64_t i) { return dy[i] * b[i]; });
      add(db, [=](int64_t i) { return dy[i] * a[i]; });
      return;
    case Binary::logaddexp: {
      // exp(a - y) is a's share of the sum; a sum of nothing (-inf) has no gradient.
      const auto share = [=](const T* part) {
        return [=](int64_t i) {
          return part[i] == -std::numeric_limits<T>::infinity() ? T(0) : dy[i] * std::exp(part[i] - y[i]);
        };
      };
      add(da, share(a));
      add(db, share(b));
      return;
    }
  }
}

template <class T>
void swiglu(const T* gate, const T* up, T* y, int64_t n) {
  for_each(n, [=](int64_t i) { y[i] = gate[i] * sigmoid_of(gate[i]) * up[i]; });
}

template <class T>
void swiglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t n) {
  if (dgate) write(dgate, n, true, [=](int64_t i) { return dy[i] * up[i] * Silu::d(gate[i], T(0)); });
  if (dup) write(dup, n, true, [=](int64_t i) { return dy[i] * Silu::f(gate[i]); });
}

template <class T>
void affine(const T* x, T alpha, T beta, T* y, int64_t n, bool add) {
  write(y, n, add, [=](int64_t i) { return alpha * x[i] + beta; });
}

template <class T>
void scale_by(const T* x, const T* s, T* y, int64_t n) {
  write(y, n, false, [=, s = *s](int64_t i) { return x[i] * s; });
}

template <class T>
void scale_by_backward(const T* x, const T* s, const T* dy, T* dx, T* ds, int64_t n) {
  if (dx) write(dx, n, true, [=, s = *s](int64_t i) { return dy[i] * s; });
  if (!ds) return;
  std::vector<double> partial((n + kChunk - 1) / kChunk);
  parallel_chunks(n, kChunk, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += double(dy[i]) * double(x[i]);
    partial[begin / kChunk] = sum;
  });
  double sum = 0;
  for (double p : partial) sum += p;
  *ds += static_cast<T>(sum);
}

template <class T>
void weighted_sum_backward(const T* w, const T* dy, T* dx, int64_t n) {
  const T d = *dy;
  if (w)
    write(dx, n, true, [=](int64_t i) { return d * w[i]; });
  else
    write(dx, n, true, [=](int64_t) { return d; });
}

template <class T>
void dropout(const T* x, T* y, int64_t n, T rate, uint64_t key, uint64_t step, bool add) {
  const Random random = Random::from_key(key, step);
  const T scale = T(1) / (T(1) - rate);
  // A word of 32 bits below the threshold drops its element.
  const auto threshold = static_cast<uint32_t>(double(rate) * 0x1.0p32);
  static_assert(kChunk % 4 == 0, "a chunk holds whole Philox blocks");
  parallel_chunks(n, kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 4) {
      const auto words = random.block(i / 4);
      for (int64_t j = i; j < std::min(end, i + 4); ++j) {
        const T value = words[j - i] < threshold ? T(0) : x[j] * scale;
        y[j] = add ? y[j] + value : value;
      }
    }
  });
}

}  // namespace

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
}
template void fill_elementwise(KernelTable<float>&);
template void fill_elementwise(KernelTable<double>&);

}  // namespace copylab::cpu
