// Optimizer steps on the CPU: one pass over parameters, gradients and state that also clears the gradients.
#include <algorithm>

#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"
#include "core/cpu/simd.h"

namespace copylab::cpu {
namespace {

constexpr int64_t kChunk = 1 << 14;

// f(offset, lanes, keep) over 0..n-1 in vectors, on all threads; the last vector of a range may be partial.
// `keep`: what is left of a parameter after its decay.
template <class T, class F>
void for_vectors(int64_t n, const DecayRanges& ranges, T keep, F&& f) {
  constexpr int64_t kLanes = simd::kLanes<T>;
  int64_t first = 0;
  const auto range = [&](int64_t last, T range_keep) {
    parallel_chunks(last - first, kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = first + begin; i < first + end; i += kLanes)
        f(i, std::min(kLanes, first + end - i), range_keep);
    });
    first = last;
  };
  if (ranges.count == 0) range(n, keep);
  for (int64_t r = 0; r < ranges.count; ++r)
    range(ranges.ends[r], (r % 2 == 0) == ranges.first ? keep : T(1));
}

template <class T>
simd::Vec<T> read(const T* p, int64_t lanes) {
  return lanes == simd::kLanes<T> ? simd::load(p) : simd::load_partial(p, lanes);
}
template <class T>
void write(T* p, simd::Vec<T> x, int64_t lanes) {
  if (lanes == simd::kLanes<T>) {
    simd::store(p, x);
  } else {
    simd::store_partial(p, x, lanes);
  }
}

// Loshchilov & Hutter 2019, with the order of operations of PyTorch's AdamW: decay first, then
// p -= lr/bias1 · m / (sqrt(v)/sqrt(bias2) + eps).
template <class T>
void adamw(const AdamWArgs<T>& a) {
  using V = simd::Vec<T>;
  const T step = a.lr / a.bias1;
  const T inv_sqrt_bias2 = T(1) / simd::sqrt(simd::broadcast(a.bias2))[0];
  for_vectors(a.n, a.ranges, T(1) - a.lr * a.weight_decay, [&](int64_t i, int64_t lanes, T keep) {
    const V g = read(a.grad + i, lanes) * a.grad_scale;
    const V m = read(a.m + i, lanes) * a.beta1 + g * (T(1) - a.beta1);
    const V v = read(a.v + i, lanes) * a.beta2 + g * g * (T(1) - a.beta2);
    const V p = read(a.param + i, lanes) * keep - m / (simd::sqrt(v) * inv_sqrt_bias2 + a.eps) * step;
    write(a.m + i, m, lanes);
    write(a.v + i, v, lanes);
    write(a.param + i, p, lanes);
    if (a.zero_grad) write(a.grad + i, V{}, lanes);
  });
}

template <class T>
void sgd(T* param, T* grad, int64_t n, T lr, T weight_decay, T grad_scale, bool zero_grad,
         const DecayRanges& ranges) {
  using V = simd::Vec<T>;
  const T step = lr * grad_scale;
  for_vectors(n, ranges, T(1) - lr * weight_decay, [&](int64_t i, int64_t lanes, T keep) {
    const V g = read(grad + i, lanes);
    write(param + i, read(param + i, lanes) * keep - g * step, lanes);
    if (zero_grad) write(grad + i, V{}, lanes);
  });
}

}  // namespace

template <class T>
void fill_optim(KernelTable<T>& k) {
  k.adamw = adamw<T>;
  k.sgd = sgd<T>;
}
template void fill_optim(KernelTable<float>&);
template void fill_optim(KernelTable<double>&);

}  // namespace copylab::cpu
