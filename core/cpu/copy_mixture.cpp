// The copy mixture on the CPU: -log p in log space, and its gradients by responsibilities.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu/activations.h"
#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"
#include "core/cpu/simd.h"

namespace copylab::cpu {
namespace {

template <class T>
using Vec = simd::Vec<T>;
template <class T>
constexpr T kMinusInf = -std::numeric_limits<T>::infinity();

// log(e^a + e^b); -inf for two of -inf.
template <class T>
Vec<T> log_add_exp(Vec<T> a, Vec<T> b) {
  const auto larger = a > b;
  const Vec<T> high = larger ? a : b, low = larger ? b : a, minus_inf = simd::broadcast(kMinusInf<T>);
  return high == minus_inf ? high : high + simd::log1p(simd::exp(low - high));
}

// The logs of the mixture's parts, kLanes positions at once (papers: CPLM §2.3; floor: §2.5 variant I).
template <class T>
struct Mixture {
  Vec<T> log_alpha, log_rest;  // log alpha, log(1 - alpha)
  Vec<T> log_share;            // log a, a = floor + (1 - floor)·alpha
  Vec<T> log_p;

  Mixture(const CopyMixtureArgs<T>& x, Vec<T> lm, Vec<T> gate_logit, Vec<T> log_copy, Vec<T> log_sink) {
    log_alpha = -simd::softplus<T>(-gate_logit);
    log_rest = -simd::softplus<T>(gate_logit);
    const T offered = 1 - x.gate_floor;
    log_share = x.gate_floor > 0 ? simd::log(x.gate_floor + offered * simd::exp(log_alpha)) : log_alpha;
    const Vec<T> log_kept = log_rest + std::log(offered);
    log_lm = lm + (x.drop_sink ? log_kept : log_add_exp<T>(log_kept, log_share + log_sink));
    log_p = log_add_exp<T>(log_lm, log_share + log_copy);
  }
  Vec<T> log_lm;  // log of the LM head's part of p
};

// f(first, count) for vectors of positions; the last may be partial.
template <class T, class F>
void for_vectors(int64_t n, F&& f) {
  constexpr int64_t kChunk = 1024, kOperations = 128;  // transcendental functions: some 128 steps a position
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  parallel_for(chunks, n * kOperations, [&](int64_t chunk) {
    const int64_t end = std::min(n, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; i += simd::kLanes<T>)
      f(i, std::min<int64_t>(simd::kLanes<T>, end - i));
  });
}

template <class T>
Mixture<T> mixture_at(const CopyMixtureArgs<T>& x, int64_t i, int64_t count) {
  return Mixture<T>(x, simd::load_partial(x.lm + i, count), simd::load_partial(x.gate_logit + i, count),
                    simd::load_partial(x.log_copy + i, count), simd::load_partial(x.log_sink + i, count));
}

template <class T>
void copy_mixture(const CopyMixtureArgs<T>& x) {
  for_vectors<T>(x.n, [&](int64_t i, int64_t count) {
    simd::store_partial(x.nll + i, -mixture_at(x, i, count).log_p, count);
  });
}

template <class T>
void copy_mixture_backward(const CopyMixtureArgs<T>& x, const CopyMixtureGrads<T>& g) {
  for_vectors<T>(x.n, [&](int64_t i, int64_t count) {
    const Mixture<T> m = mixture_at(x, i, count);
    const Vec<T> lm = simd::load_partial(x.lm + i, count);
    const Vec<T> log_copy = simd::load_partial(x.log_copy + i, count);
    const Vec<T> log_sink = simd::load_partial(x.log_sink + i, count);
    const Vec<T> dnll = simd::load_partial(g.dnll + i, count);
    const auto impossible = m.log_p == simd::broadcast(kMinusInf<T>);  // p = 0: all gradients are 0
    const auto add = [&](T* to, Vec<T> d) {
      if (!to) return;
      const Vec<T> now = simd::load_partial(to + i, count);
      simd::store_partial(to + i, now + (impossible ? Vec<T>{} : dnll * d), count);
    };
    const Vec<T> p = impossible ? Vec<T>{} : m.log_p;
    add(g.dlm, -simd::exp(m.log_lm - p));
    add(g.dlog_copy, -simd::exp(m.log_share + log_copy - p));
    if (!x.drop_sink) add(g.dlog_sink, -simd::exp(lm + m.log_share + log_sink - p));
    // dp/du = (1 - floor)·alpha·(1 - alpha)·(pi(y) - P~(y)·(1 - a_sink)).
    const Vec<T> slope = m.log_alpha + m.log_rest + std::log(1 - x.gate_floor) - p;
    const Vec<T> kept = x.drop_sink ? simd::broadcast(T(1)) : simd::one_minus_exp<T>(log_sink);
    add(g.dgate_logit, simd::exp(slope + lm) * kept - simd::exp(slope + log_copy));
  });
}

}  // namespace

template <class T>
void fill_copy_mixture(KernelTable<T>& k) {
  k.copy_mixture = copy_mixture<T>;
  k.copy_mixture_backward = copy_mixture_backward<T>;
}
template void fill_copy_mixture(KernelTable<float>&);
template void fill_copy_mixture(KernelTable<double>&);

}  // namespace copylab::cpu
