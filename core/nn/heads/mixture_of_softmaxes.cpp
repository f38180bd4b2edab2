// The Mixture of Softmaxes (Yang et al. 2018, arXiv 1711.03953; papers §9.4): several softmaxes over one
// output matrix, so that log-probabilities are not of rank D.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/nn/heads/heads.h"
#include "core/nn/heads/lm_projection.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear.h"
#include "core/ops/lm_head.h"

namespace copylab::nn {
namespace {

constexpr int64_t kTileLogits =
    1 << 20;  // logits that are alive at once when the most probable token is sought

std::vector<Field> fields() {
  std::vector<Field> all = lm_projection_fields();
  all.push_back({"head.components", int64_t{4}, "softmaxes K; the paper has 15", 1, 1024});
  return all;
}

class MixtureOfSoftmaxes : public Head {
 public:
  MixtureOfSoftmaxes(const HeadContext& context, const Settings& settings)
      : lm_(context, settings, 0), dim_(context.dim), components_(settings.integer("head.components")) {
    Parameters& p = context.parameters;
    const Init init = context.init;
    prior_ = &p.add("mixture_head.prior.weight", {components_, dim_}, init, true);
    latent_ = &p.add("mixture_head.latent.weight", {components_ * dim_, dim_}, init, true);
  }

  // log p(y) = log sum_k exp(z_k + log softmax_k(y)) - log sum_k exp(z_k), z = W_pi·h.
  HeadOutput forward(Tape& tape, const HeadInput& in) const override {
    const int64_t labelled = static_cast<int64_t>(in.rows.size()), k = components_;
    const Tensor h = select_rows(tape, in.h, in.rows);
    const Tensor latent = ops::tanh(tape, ops::linear(tape, h, *latent_)).reshape({labelled * k, dim_});
    std::vector<int32_t> targets(labelled * k), all(labelled * k);
    for (int64_t i = 0; i < labelled * k; ++i) {
      targets[i] = in.row_targets[i / k];
      all[i] = static_cast<int32_t>(i % k);
    }
    // The prior is a softmax of its own, over K "tokens".
    const ops::LmHeadResult prior = ops::lm_head(tape, h, *prior_, tape.constant(all, {labelled, k}), k);
    const ops::LmHeadResult lm = lm_.logits(tape, latent, tape.constant(targets, {labelled * k, 1}));
    const Tensor log_p = ops::sub(tape, lm.logits.reshape({labelled * k}), lm.lse);
    const Tensor joint = ops::add(tape, prior.logits, log_p.reshape({labelled, k}));
    Tensor mixed = column(tape, joint, 0);
    for (int64_t c = 1; c < k; ++c) mixed = ops::logaddexp(tape, mixed, column(tape, joint, c));

    HeadOutput out;
    out.nll = ops::sub(tape, prior.lse, mixed);
    out.lm_nll = out.nll;
    if (in.want_argmax)
      dispatch_float(h.dtype(), "mixture_of_softmaxes", [&](auto tag) {
        out.argmax = out.lm_argmax = most_probable<decltype(tag)>(tape, latent, prior, lm);
      });
    return out;
  }

  double flops_per_token(int64_t) const override {
    const double k = static_cast<double>(components_), dim = static_cast<double>(dim_);
    return 2.0 * k * dim * (dim + 1.0) + k * lm_.flops();
  }
  // The states of all softmaxes, before and after tanh.
  double activations_per_token(double) const override {
    return 2.0 * static_cast<double>(components_ * dim_);
  }

 private:
  // The token of largest probability (M), ties to the smaller one. It need not be the favourite of any
  // component, so the whole vocabulary is searched, in tiles that a tape of their own forgets.
  template <class T>
  Tensor most_probable(Tape& tape, const Tensor& latent, const ops::LmHeadResult& prior,
                       const ops::LmHeadResult& lm) const {
    const Backend& backend = tape.backend();
    const int64_t rows = latent.dim(0), k = components_, labelled = rows / k, vocab = lm_.vocab();
    const auto lse = to_host<T>(backend, lm.lse), shift = to_host<T>(backend, lm.shift);
    const auto z = to_host<T>(backend, prior.logits), z_lse = to_host<T>(backend, prior.lse);
    std::vector<T> weight(rows), offset(rows);  // p(v) = sum_k weight · exp(logit - offset)
    for (int64_t i = 0; i < rows; ++i) {
      weight[i] = std::exp(z[i] - z_lse[i / k]);
      offset[i] = shift[i] + lse[i];
    }
    std::vector<double> top(labelled, -1.0);
    std::vector<T> floor(labelled, -std::numeric_limits<T>::infinity());
    std::vector<int32_t> best(labelled, 0);
    Tape tiles(backend);
    const int64_t tile = std::clamp<int64_t>(kTileLogits / std::max<int64_t>(1, rows), 1, vocab);
    for (int64_t first = 0; first < vocab; first += tile) {
      const int64_t count = std::min(tile, vocab - first);
      tiles.begin({.record = false, .training = false});
      const auto logits = to_host<T>(backend, lm_.logits_of(tiles, latent, first, count));
      for (int64_t m = 0; m < labelled; ++m)
        for (int64_t v = 0; v < count; ++v) {
          const T* x = logits.data() + m * k * count + v;
          // p(v) is at most the largest of its components: few tokens need the sum.
          T bound = x[0] - offset[m * k];
          for (int64_t c = 1; c < k; ++c) bound = std::max(bound, x[c * count] - offset[m * k + c]);
          if (bound < floor[m]) continue;
          double p = 0;
          for (int64_t c = 0; c < k; ++c)
            p += static_cast<double>(weight[m * k + c]) *
                 std::exp(static_cast<double>(x[c * count]) - static_cast<double>(offset[m * k + c]));
          if (p <= top[m]) continue;
          top[m] = p;
          floor[m] = static_cast<T>(std::log(p) - 1e-3);  // room for rounding
          best[m] = static_cast<int32_t>(first + v);
        }
    }
    return tape.constant(best, {labelled});
  }

  LmProjection lm_;
  int64_t dim_, components_;
  const Tensor *prior_, *latent_;
};

}  // namespace

HeadEntry mixture_of_softmaxes_head() {
  return {"mixture_of_softmaxes", "weighted sum of several softmaxes over one output matrix (MoS)", fields,
          [](const Settings&) { return int64_t{0}; },
          [](const HeadContext& context, const Settings& settings) -> std::unique_ptr<Head> {
            return std::make_unique<MixtureOfSoftmaxes>(context, settings);
          }};
}

}  // namespace copylab::nn
