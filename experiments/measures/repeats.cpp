// Random tokens shown twice, what a model loses on them, and how much attention its heads pay along a stripe.
#include "experiments/measures/repeats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/split_walk.h"
#include "tasks/distinct.h"

namespace copylab {
namespace {

constexpr int64_t kTokens = 2048;  // of one forward pass

// f(batch, first sequence) over all sequences, a few at a time.
template <class F>
void for_each_batch(const Repeats& repeats, int64_t sequences, F&& f) {
  const int64_t rows = std::max<int64_t>(1, kTokens / (2 * repeats.block));
  for (int64_t first = 0; first < sequences; first += rows)
    f(repeated_sequences(repeats, first, std::min(rows, sequences - first)));
}

void accumulate(std::vector<double>& to, const std::vector<double>& from) {
  to.resize(from.size(), 0.0);
  for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Keeps of each map of attention, while forward passes run, no more than its stripes.
class StripeProbe : public Probe {
 public:
  StripeProbe(const Backend& backend, int64_t block) : backend_(backend), block_(block) {}

  // Sums over sequences of means over positions, of each head.
  struct Layer {
    std::vector<double> induction, previous, duplicate;
  };
  std::map<int64_t, Layer> layers;
  std::vector<double> pointer;  // of the last pass: (sequences, T) weights along the induction stripe

  bool wants(const std::string& name) const override {
    return name == "copy_head.weights" || layer_of(name) >= 0;
  }

  void take(const std::string& name, const Tensor& value) override {
    const std::vector<double> maps = values_of(backend_, value);
    const int64_t n = value.dim(-1);
    if (name == "copy_head.weights") {
      pointer = stripe(maps, n, block_, block_ - 1);
      return;
    }
    const int64_t heads = value.dim(1);
    Layer& layer = layers[layer_of(name)];
    accumulate(layer.induction, by_head(stripe(maps, n, block_, block_ - 1), heads, block_));
    accumulate(layer.previous, by_head(stripe(maps, n, 1, 1), heads, n - 1));
    accumulate(layer.duplicate, by_head(stripe(maps, n, block_, block_), heads, block_));
  }

 private:
  // "blocks.{i}.attn.probs" -> i, anything else -> -1.
  static int64_t layer_of(const std::string& name) {
    const std::string head = "blocks.", tail = ".attn.probs";
    if (name.rfind(head, 0) != 0 || name.size() <= head.size() + tail.size()) return -1;
    const std::string number = name.substr(head.size(), name.size() - head.size() - tail.size());
    if (name != head + number + tail || number.find_first_not_of("0123456789") != std::string::npos)
      return -1;
    return std::stoll(number);
  }

  // (B, H, positions) -> of each head, the sum over B of means over positions.
  static std::vector<double> by_head(const std::vector<double>& weights, int64_t heads, int64_t positions) {
    std::vector<double> sums(heads, 0.0);
    for (size_t i = 0; i < weights.size(); ++i)
      sums[i / positions % heads] += weights[i] / static_cast<double>(positions);
    return sums;
  }

  const Backend& backend_;
  int64_t block_;
};

}  // namespace

Batch repeated_sequences(const Repeats& repeats, int64_t first, int64_t rows) {
  const int64_t block = repeats.block;
  Batch b;
  b.rows = rows;
  b.length = 2 * block;
  for (int64_t row = first; row < first + rows; ++row) {
    const Random random(repeats.seed, fmt::format("measure.repeats.{}", block), row);
    const std::vector<int32_t> r =
        draw_distinct(random, 0, block, repeats.ids.first, repeats.ids.second - repeats.ids.first + 1);
    for (int64_t i = 0; i < 2 * block; ++i) {
      b.tokens.push_back(r[i % block]);
      b.targets.push_back(r[(i + 1) % block]);
    }
  }
  return b;
}

std::pair<int64_t, int64_t> id_range(const std::vector<int64_t>& setting, int64_t vocab, const char* who) {
  if (setting.empty()) return {0, vocab - 1};
  expect_config(setting.size() == 2 && setting[0] >= 0 && setting[0] < setting[1] && setting[1] < vocab,
                "measure.{}.ids: first and last id within 0..{} expected", who, vocab - 1);
  return {setting[0], setting[1]};
}

double plan_repeats(const MeasureInput& in, int64_t block, int64_t sequences) {
  return static_cast<double>(sequences * 2 * block) * in.model.flops_per_token(2 * block);
}

std::vector<int64_t> default_blocks(const Task& task, std::pair<int64_t, int64_t> ids) {
  const int64_t largest = std::min((task.length() + 1) / 2, ids.second - ids.first + 1);
  std::vector<int64_t> blocks;
  for (int64_t block = 8; block <= largest; block *= 2) blocks.push_back(block);
  if (blocks.empty()) blocks.push_back(std::max<int64_t>(2, largest));
  return blocks;
}

Losses losses_on(const nn::Model& model, const Batch& batch, bool all_modes, Probe* probe, nn::Carry* carry) {
  const Backend& backend = model.parameters().backend();
  Tape tape(backend);
  tape.begin({.record = false, .training = false, .probe = probe});
  nn::ModelInput in = model_input(tape, batch, carry);
  in.want_argmax = all_modes;
  const nn::HeadOutput out = model.forward(tape, in);
  Losses losses;
  losses.natural = values_of(backend, out.nll);
  losses.no_copy = values_of(backend, out.lm_nll);
  losses.gate = values_of(backend, out.gate);
  losses.sink = values_of(backend, out.sink);
  if (all_modes) losses.force_copy = values_of(backend, out.copy_nll);
  return losses;
}

std::vector<double> stripe(const std::vector<double>& maps, int64_t n, int64_t first, int64_t offset) {
  expect(offset >= 0 && first >= offset && first < n, "stripe", "offset <= first < {} expected: got {}, {}",
         n, offset, first);
  std::vector<double> weights;
  for (size_t map = 0; map < maps.size(); map += n * n)
    for (int64_t i = first; i < n; ++i) weights.push_back(maps[map + i * n + i - offset]);
  return weights;
}

std::vector<int64_t> HeadScores::order() const {
  std::vector<int64_t> places(induction.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](int64_t a, int64_t b) { return induction[a] > induction[b]; });
  return places;
}

RepeatScores score_heads(nn::Model& model, const Repeats& repeats, int64_t sequences) {
  const int64_t block = repeats.block;
  StripeProbe probe(model.parameters().backend(), block);
  RepeatScores scores;
  PointerScores& copy = scores.copy_head;
  for_each_batch(repeats, sequences, [&](const Batch& batch) {
    const Losses losses = losses_on(model, batch, false, &probe);
    if (probe.pointer.empty()) return;
    scores.pointer = true;
    copy.induction += sum(probe.pointer);
    for (int64_t i = 0; i < batch.rows * block; ++i) {
      const size_t at = i / block * 2 * block + block + i % block;  // in the second copy
      if (!losses.gate.empty())
        copy.gate += losses.gate[at], copy.gated += losses.gate[at] * probe.pointer[i];
      if (!losses.sink.empty()) copy.sink += losses.sink[at];
    }
  });
  for (double* value : {&copy.induction, &copy.gated, &copy.sink, &copy.gate})
    *value /= static_cast<double>(sequences * block);
  HeadScores& heads = scores.heads;
  for (const auto& [layer, of_layer] : probe.layers) {
    heads.heads = static_cast<int64_t>(of_layer.induction.size());
    ++heads.layers;
    const auto append = [&](std::vector<double>& to, const std::vector<double>& sums) {
      for (const double x : sums) to.push_back(x / static_cast<double>(sequences));
    };
    append(heads.induction, of_layer.induction);
    append(heads.previous, of_layer.previous);
    append(heads.duplicate, of_layer.duplicate);
  }
  return scores;
}

RepeatLosses repeat_losses(nn::Model& model, const Repeats& repeats, int64_t sequences, bool all_modes) {
  const int64_t block = repeats.block, length = 2 * block;
  std::vector<double> natural(length, 0.0), no_copy(length, 0.0);  // sums over sequences, by position
  RepeatLosses out;
  double reachable = 0;
  for_each_batch(repeats, sequences, [&](const Batch& batch) {
    const Losses losses = losses_on(model, batch, all_modes);
    out.pointer = !losses.gate.empty();
    for (int64_t i = 0; i < batch.rows * length; ++i) {
      const int64_t t = i % length;
      natural[t] += losses.natural[i];
      no_copy[t] += losses.no_copy.empty() ? 0.0 : losses.no_copy[i];
      if (losses.force_copy.empty() || t < block || t == length - 1 || !std::isfinite(losses.force_copy[i]))
        continue;
      reachable += 1;
      out.force_copy += losses.force_copy[i];
    }
  });
  // Position t is asked for token t + 1; the last one's target is no part of the sequence.
  const double inducible = static_cast<double>((block - 1) * sequences);
  const auto mean = [&](const std::vector<double>& sums, int64_t begin, int64_t end) {
    return std::accumulate(sums.begin() + begin, sums.begin() + end, 0.0) / inducible;
  };
  out.natural = mean(natural, block, length - 1);
  out.no_copy = mean(no_copy, block, length - 1);
  out.first_copy = mean(natural, 0, block - 1);
  out.force_copy = reachable > 0 ? out.force_copy / reachable : std::nan("");
  out.reachable = reachable / inducible;
  for (int64_t t = 0; t < length - 1; ++t) {
    out.by_position.push_back(natural[t] / static_cast<double>(sequences));
    out.no_copy_by_position.push_back(no_copy[t] / static_cast<double>(sequences));
  }
  return out;
}

}  // namespace copylab
