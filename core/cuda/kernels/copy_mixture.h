// The copy mixture: -log p in log space, and its gradients by responsibilities.
#pragma once

#include "core/cuda/kernels/map.h"
#include "core/kernels.h"

namespace copylab::cuda {

// The logs of the mixture's parts at one position (papers: CPLM §2.3; floor: §2.5 variant I).
template <class T>
struct Mixture {
  T log_alpha, log_rest;  // log alpha, log(1 - alpha)
  T log_share;            // log a, a = floor + (1 - floor)·alpha
  T log_lm;               // log of the LM head's part of p
  T log_p;
};

template <class T>
CL_DEVICE Mixture<T> mixture_at(const CopyMixtureArgs<T>& x, int64_t i) {
  Mixture<T> m;
  m.log_alpha = -softplus(-x.gate_logit[i]);
  m.log_rest = -softplus(x.gate_logit[i]);
  const T offered = T(1) - x.gate_floor;
  m.log_share = x.gate_floor > 0 ? std::log(x.gate_floor + offered * std::exp(m.log_alpha)) : m.log_alpha;
  const T log_kept = m.log_rest + std::log(offered);
  m.log_lm = x.lm[i] + (x.drop_sink ? log_kept : log_add_exp(log_kept, m.log_share + x.log_sink[i]));
  m.log_p = log_add_exp(m.log_lm, m.log_share + x.log_copy[i]);
  return m;
}

template <class T>
void copy_mixture(const CopyMixtureArgs<T>& args) {
  const CopyMixtureArgs<T> x = args;
  map(
      x.n, CL_LAMBDA(int64_t i) { x.nll[i] = -mixture_at(x, i).log_p; });
}

template <class T>
void copy_mixture_backward(const CopyMixtureArgs<T>& args, const CopyMixtureGrads<T>& grads) {
  const CopyMixtureArgs<T> x = args;
  const CopyMixtureGrads<T> g = grads;
  map(
      x.n, CL_LAMBDA(int64_t i) {
        const Mixture<T> m = mixture_at(x, i);
        if (m.log_p == -kInf<T>) return;  // p = 0: all gradients are 0
        const T lm = x.lm[i], log_copy = x.log_copy[i], log_sink = x.log_sink[i], dnll = g.dnll[i];
        if (g.dlm) g.dlm[i] -= dnll * std::exp(m.log_lm - m.log_p);
        if (g.dlog_copy) g.dlog_copy[i] -= dnll * std::exp(m.log_share + log_copy - m.log_p);
        if (g.dlog_sink && !x.drop_sink)
          g.dlog_sink[i] -= dnll * std::exp(lm + m.log_share + log_sink - m.log_p);
        if (!g.dgate_logit) return;
        // dp/du = (1 - floor)·alpha·(1 - alpha)·(pi(y) - P~(y)·(1 - a_sink)).
        const T slope = m.log_alpha + m.log_rest + std::log(T(1) - x.gate_floor) - m.log_p;
        const T kept = x.drop_sink ? T(1) : -std::expm1(log_sink);
        g.dgate_logit[i] += dnll * (std::exp(slope + lm) * kept - std::exp(slope + log_copy));
      });
}

template <class T>
void fill_copy_mixture(KernelTable<T>& k) {
  k.copy_mixture = copy_mixture<T>;
  k.copy_mixture_backward = copy_mixture_backward<T>;
}

}  // namespace copylab::cuda
