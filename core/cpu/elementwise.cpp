// Elementwise kernels: SwiGLU, unary and binary functions, affine maps, dropout.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/cpu/activations.h"
#include "core/cpu/kernels.h"
#include "core/cpu/lanes.h"
#include "core/cpu/parallel.h"
#include "core/random.h"

namespace copylab::cpu {
namespace {

using simd::broadcast;
using simd::Vec;

constexpr int64_t kChunk = 1 << 13;  // elements of a task

// f(lanes) for all of 0..n-1, in parallel chunks.
template <class T, class F>
void map_lanes(int64_t n, F&& f) {
  static_assert(kChunk % simd::kLanes<T> == 0, "only the last chunk has a partial vector");
  parallel_chunks(n, kChunk, [&](int64_t begin, int64_t end) { for_lanes<T>(begin, end, f); });
}

// The functions of one number: value f(x), and derivative d(x, y) at x with y = f(x).
template <class T>
struct Sigmoid {
  static Vec<T> f(Vec<T> x) { return simd::sigmoid<T>(x); }
  static Vec<T> d(Vec<T> x, Vec<T>) { return simd::sigmoid_slope<T>(x); }
};
template <class T>
struct Tanh {
  static Vec<T> f(Vec<T> x) { return simd::tanh<T>(x); }
  static Vec<T> d(Vec<T>, Vec<T> y) { return T(1) - y * y; }
};
template <class T>
struct Silu {
  static Vec<T> f(Vec<T> x) { return simd::silu<T>(x); }
  static Vec<T> d(Vec<T> x, Vec<T>) { return simd::silu_slope<T>(x); }
};
template <class T>
struct Relu {  // NaN stays NaN
  static Vec<T> f(Vec<T> x) { return x < Vec<T>{} ? Vec<T>{} : x; }
  static Vec<T> d(Vec<T> x, Vec<T>) { return x > Vec<T>{} ? broadcast(T(1)) : Vec<T>{}; }
};
template <class T>
struct Softplus {
  static Vec<T> f(Vec<T> x) { return simd::softplus<T>(x); }
  static Vec<T> d(Vec<T> x, Vec<T>) { return simd::sigmoid<T>(x); }
};
template <class T>
struct LogSigmoid {
  static Vec<T> f(Vec<T> x) { return -simd::softplus<T>(-x); }
  static Vec<T> d(Vec<T> x, Vec<T>) { return simd::sigmoid<T>(-x); }
};
template <class T>
struct Exp {
  static Vec<T> f(Vec<T> x) { return simd::exp(x); }
  static Vec<T> d(Vec<T>, Vec<T> y) { return y; }
};
template <class T>
struct Log {
  static Vec<T> f(Vec<T> x) { return simd::log(x); }
  static Vec<T> d(Vec<T> x, Vec<T>) { return T(1) / x; }
};
template <class T>
struct Square {
  static Vec<T> f(Vec<T> x) { return x * x; }
  static Vec<T> d(Vec<T> x, Vec<T>) { return T(2) * x; }
};

// g(Sigmoid<T>{}) and so on, for the function that `op` names.
template <class T, class G>
void with_unary(Unary op, G&& g) {
  switch (op) {
    case Unary::sigmoid:
      return g(Sigmoid<T>{});
    case Unary::tanh:
      return g(Tanh<T>{});
    case Unary::silu:
      return g(Silu<T>{});
    case Unary::relu:
      return g(Relu<T>{});
    case Unary::softplus:
      return g(Softplus<T>{});
    case Unary::log_sigmoid:
      return g(LogSigmoid<T>{});
    case Unary::exp:
      return g(Exp<T>{});
    case Unary::log:
      return g(Log<T>{});
    case Unary::square:
      return g(Square<T>{});
  }
}

template <class T>
void unary(Unary op, const T* x, T* y, int64_t n) {
  with_unary<T>(op, [&](auto function) {
    using F = decltype(function);
    map_lanes<T>(n, [=](auto at) { at.store(y, F::f(at.load(x))); });
  });
}

template <class T>
void unary_backward(Unary op, const T* x, const T* y, const T* dy, T* dx, int64_t n) {
  if (!dx) return;
  with_unary<T>(op, [&](auto function) {
    using F = decltype(function);
    map_lanes<T>(n, [=](auto at) { at.add(dx, at.load(dy) * F::d(at.load(x), at.load(y))); });
  });
}

template <class T>
constexpr T kInf = std::numeric_limits<T>::infinity();

// log(exp(a) + exp(b)) = high + log(1 + exp(low - high)); -inf stands for log 0, on either side or on both.
template <class T>
Vec<T> logaddexp(Vec<T> a, Vec<T> b) {
  const Vec<T> high = simd::max(a, b), low = simd::min(a, b);
  const Vec<T> y = high + simd::log1p(simd::exp(low - high));
  return (high == broadcast(-kInf<T>)) | (high == broadcast(kInf<T>)) ? high : y;
}

// d logaddexp / da = sigmoid(a - b), the share of a in the sum; log 0 has no share. exp(a - y) would be the
// same but for the rounding of y, which is large where a and b are.
template <class T>
Vec<T> share(Vec<T> a, Vec<T> b) {
  return a == broadcast(-kInf<T>) ? Vec<T>{} : simd::sigmoid<T>(a - b);
}

template <class T>
void binary(Binary op, const T* a, const T* b, T* y, int64_t n) {
  const auto run = [=](auto f) { map_lanes<T>(n, [=](auto at) { at.store(y, f(at.load(a), at.load(b))); }); };
  using V = Vec<T>;
  switch (op) {
    case Binary::add:
      return run([](V p, V q) { return p + q; });
    case Binary::sub:
      return run([](V p, V q) { return p - q; });
    case Binary::mul:
      return run([](V p, V q) { return p * q; });
    case Binary::logaddexp:
      return run([](V p, V q) { return logaddexp<T>(p, q); });
  }
}

// Each gradient is read and written by itself, since a and b may be the same tensor.
template <class T>
void binary_backward(Binary op, const T* a, const T* b, const T* /*y*/, const T* dy, T* da, T* db,
                     int64_t n) {
  const auto add = [=](T* to, auto f) {
    if (to) map_lanes<T>(n, [=](auto at) { at.add(to, f(at)); });
  };
  switch (op) {
    case Binary::add:
      add(da, [=](auto at) { return at.load(dy); });
      add(db, [=](auto at) { return at.load(dy); });
      return;
    case Binary::sub:
      add(da, [=](auto at) { return at.load(dy); });
      add(db, [=](auto at) { return -at.load(dy); });
      return;
    case Binary::mul:
      add(da, [=](auto at) { return at.load(dy) * at.load(b); });
      add(db, [=](auto at) { return at.load(dy) * at.load(a); });
      return;
    case Binary::logaddexp:
      add(da, [=](auto at) { return at.load(dy) * share<T>(at.load(a), at.load(b)); });
      add(db, [=](auto at) { return at.load(dy) * share<T>(at.load(b), at.load(a)); });
      return;
  }
}

template <class T>
void swiglu(const T* gate, const T* up, T* y, int64_t n) {
  map_lanes<T>(n, [=](auto at) { at.store(y, simd::silu<T>(at.load(gate)) * at.load(up)); });
}

template <class T>
void swiglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t n) {
  map_lanes<T>(n, [=](auto at) {
    const Vec<T> g = at.load(gate), d = at.load(dy), s = simd::sigmoid<T>(g);
    if (dgate) at.add(dgate, d * at.load(up) * (s * (T(1) + g * (T(1) - s))));
    if (dup) at.add(dup, d * g * s);
  });
}

template <class T>
void affine(const T* x, T alpha, T beta, T* y, int64_t n, bool add) {
  if (add)
    map_lanes<T>(n, [=](auto at) { at.add(y, alpha * at.load(x) + beta); });
  else
    map_lanes<T>(n, [=](auto at) { at.store(y, alpha * at.load(x) + beta); });
}

template <class T>
void scale_by(const T* x, const T* s, T* y, int64_t n) {
  const T factor = *s;
  map_lanes<T>(n, [=](auto at) { at.store(y, factor * at.load(x)); });
}

template <class T>
void scale_by_backward(const T* x, const T* s, const T* dy, T* dx, T* ds, int64_t n) {
  const T factor = *s;
  if (dx) map_lanes<T>(n, [=](auto at) { at.add(dx, factor * at.load(dy)); });
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
    map_lanes<T>(n, [=](auto at) { at.add(dx, d * at.load(w)); });
  else
    map_lanes<T>(n, [=](auto at) { at.add(dx, broadcast(d)); });
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

template <class T>
void locked_dropout(const T* x, T* y, int64_t batch, int64_t length, int64_t dim, T rate, uint64_t key,
                    uint64_t step, bool add) {
  const std::vector<T> ones(batch * dim, T(1));
  std::vector<T> mask(batch * dim);
  dropout(ones.data(), mask.data(), batch * dim, rate, key, step, false);
  parallel_for(batch * length, batch * length * dim, [&](int64_t row) {
    const T *m = mask.data() + row / length * dim, *from = x + row * dim;
    T* to = y + row * dim;
    if (add) {
      for (int64_t d = 0; d < dim; ++d) to[d] += m[d] * from[d];
    } else {
      for (int64_t d = 0; d < dim; ++d) to[d] = m[d] * from[d];
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
  k.locked_dropout = locked_dropout<T>;
}
template void fill_elementwise(KernelTable<float>&);
template void fill_elementwise(KernelTable<double>&);

}  // namespace copylab::cpu
