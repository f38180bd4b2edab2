// Modes of the heads with a pointer: sums of its weights by token, on the host.
#include "core/nn/heads/pointer_modes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <unordered_map>

namespace copylab::nn {
namespace {

template <class T>
void decide_as(Tape& tape, const HeadInput& in, const Candidates& candidates, const ops::LmHeadResult& lm,
               int64_t fixed, const ops::PointerResult& pointer, bool drop_sink, HeadOutput& out) {
  const Backend& backend = tape.backend();
  const int64_t labelled = static_cast<int64_t>(in.rows.size()), length = candidates.length;
  const int64_t columns = fixed + candidates.per_row, keys = in.memory + length;
  const auto tokens = to_host<int32_t>(backend, in.key_tokens);
  const auto lm_argmax = to_host<int32_t>(backend, lm.argmax);
  const auto lse = to_host<T>(backend, lm.lse), logits = to_host<T>(backend, lm.logits);
  const auto weights = to_host<T>(backend, pointer.weights);
  const auto gate = to_host<T>(backend, out.gate), sink = to_host<T>(backend, out.sink);
  const auto log_copy = to_host<T>(backend, out.log_copy);
  std::vector<int32_t> best(labelled), best_copy(labelled, -1);
  std::vector<T> copy_nll(labelled);
  std::unordered_map<int32_t, double> mass;  // of the pointer, by token

  for (int64_t i = 0; i < labelled; ++i) {
    const int64_t row = in.rows[i], b = row / length, t = row % length;
    mass.clear();
    double sources = 0.0;
    for (int64_t p = 0; p <= in.memory + t; ++p) {
      const double w = static_cast<double>(weights[row * keys + p]);
      if (w > 0) mass[tokens[b * keys + p]] += w;
      sources += w;
    }
    double a = static_cast<double>(gate[i]);
    double lm_share = 1.0 - a + (drop_sink ? 0.0 : a * static_cast<double>(sink[i]));
    if (lm_share < in.lm_floor) {
      a *= (1.0 - in.lm_floor) / (1.0 - lm_share);
      lm_share = in.lm_floor;
    }
    // Of the tokens that are not in the context, only the LM head's own favourite can win; its logit is the
    // row's shift, 0 here.
    best[i] = lm_argmax[i];
    double top = lm_share * std::exp(-static_cast<double>(lse[i]));
    double top_copy = 0.0;
    const int32_t* ids = candidates.of_row(row);
    for (int64_t c = 0; c < candidates.per_row && ids[c] >= 0; ++c) {
      const auto found = mass.find(ids[c]);
      const double pi = found == mass.end() ? 0.0 : found->second;
      const double p = lm_share * std::exp(static_cast<double>(logits[i * columns + fixed + c]) -
                                           static_cast<double>(lse[i])) +
                       a * pi;
      if (p > top || (p == top && ids[c] < best[i])) {
        top = p;
        best[i] = ids[c];
      }
      if (pi > top_copy) {
        top_copy = pi;
        best_copy[i] = ids[c];
      }
    }
    copy_nll[i] = sources > 0 ? static_cast<T>(std::log(sources) - static_cast<double>(log_copy[i]))
                              : std::numeric_limits<T>::infinity();
  }
  out.lm_argmax = lm.argmax;
  out.argmax = tape.constant(best, {labelled});
  out.copy_argmax = tape.constant(best_copy, {labelled});
  out.copy_nll = tape.constant(copy_nll, {labelled});
}

}  // namespace

Candidates find_candidates(Tape& tape, const HeadInput& in) {
  Candidates out;
  if (!in.want_argmax) return out;
  const int64_t batch = in.tokens.dim(0), keys = in.key_tokens.dim(1);
  const std::vector<int32_t> tokens = to_host<int32_t>(tape.backend(), in.key_tokens);
  std::vector<std::vector<int32_t>> distinct(batch);
  out.length = in.tokens.dim(1);
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<int32_t>& d = distinct[b];
    std::copy_if(tokens.begin() + b * keys, tokens.begin() + (b + 1) * keys, std::back_inserter(d),
                 [](int32_t id) { return id >= 0; });
    std::sort(d.begin(), d.end());
    d.erase(std::unique(d.begin(), d.end()), d.end());
    out.per_row = std::max<int64_t>(out.per_row, static_cast<int64_t>(d.size()));
  }
  out.ids.assign(batch * out.per_row, -1);
  for (int64_t b = 0; b < batch; ++b)
    std::copy(distinct[b].begin(), distinct[b].end(), out.ids.begin() + b * out.per_row);
  return out;
}

void decide(Tape& tape, const HeadInput& in, const Candidates& candidates, const ops::LmHeadResult& lm,
            int64_t fixed, const ops::PointerResult& pointer, bool drop_sink, HeadOutput& out) {
  dispatch_float(in.h.dtype(), "head", [&](auto tag) {
    decide_as<decltype(tag)>(tape, in, candidates, lm, fixed, pointer, drop_sink, out);
  });
}

}  // namespace copylab::nn
