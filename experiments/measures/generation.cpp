// generation: decoding with and without a least share of the LM head, and the text's own continuation beside
// it. Prompts keep their meta-tokens, as the model was trained with them. A continuation gets none: their
// places are random, and no model is trained to predict one; the text's own is compared without them.
#include "experiments/measures/generation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "experiments/config/error.h"
#include "experiments/evaluate/decode.h"
#include "experiments/evaluate/split_walk.h"

namespace copylab {
namespace {

constexpr int64_t kLongestNgram = 4, kLongestPeriod = 16;

std::vector<Field> fields() {
  return {
      {"measure.generation.prompts", int64_t{64}, "test sequences whose beginnings are the prompts", 1,
       1 << 20},
      {"measure.generation.prompt_length", int64_t{0}, "tokens of a prompt; 0 = half of task.length", 0,
       1 << 20},
      {"measure.generation.tokens", int64_t{64}, "tokens appended to each prompt", 4, 1 << 20},
      {"measure.generation.lm_floors", std::vector<int64_t>{0, 30},
       "least shares of the LM head in the mixture, percent", 0, 100},
  };
}

using Texts = std::vector<std::vector<int32_t>>;

double mean_of(const Texts& texts, const std::function<double(const std::vector<int32_t>&)>& of) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& text : texts)
    if (const double value = of(text); std::isfinite(value)) {
      sum += value;
      ++count;
    }
  return count ? sum / static_cast<double>(count) : std::nan("");
}

std::vector<double> repetition(const Texts& texts) {
  std::vector<double> out;
  for (int64_t n = 1; n <= kLongestNgram; ++n)
    out.push_back(mean_of(texts, [n](const auto& text) { return repeated_ngrams(text, n); }));
  return out;
}

double loop_rate(const Texts& texts) {
  return mean_of(texts, [](const auto& text) { return loop_period(text, kLongestPeriod) > 0 ? 1.0 : 0.0; });
}

struct Asked {
  int64_t prompts, length, tokens;
  std::vector<int64_t> floors;
};

Asked read(const MeasureInput& in) {
  Asked asked{in.settings.integer("measure.generation.prompts"),
              in.settings.integer("measure.generation.prompt_length"),
              in.settings.integer("measure.generation.tokens"),
              in.settings.integers("measure.generation.lm_floors")};
  if (asked.length == 0) asked.length = std::max<int64_t>(1, in.task.length() / 2);
  if (asked.length > in.task.length())
    throw ConfigError(
        fmt::format("measure.generation.prompt_length: at most task.length = {} expected, got {}",
                    in.task.length(), asked.length));
  if (asked.floors.empty()) throw ConfigError("measure.generation.lm_floors: at least one share expected");
  return asked;
}

double plan(const MeasureInput& in) {
  const Asked asked = read(in);
  double flops = 0;
  if (in.model.carries_context()) {  // each token is read once
    flops = static_cast<double>(asked.length + asked.tokens) * in.model.flops_per_token(asked.length, true);
  } else {
    for (int64_t step = 0; step < asked.tokens; ++step) {
      const int64_t context = std::min(in.task.length(), asked.length + step);
      flops += static_cast<double>(context) * in.model.flops_per_token(context);
    }
  }
  return flops * static_cast<double>(asked.prompts * static_cast<int64_t>(asked.floors.size()));
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const auto [prompts, length, tokens, floors] = read(in);

  // Sequences that are whole: their own text goes on as far as they reach.
  Texts starts, own;
  SplitWalk walk(in.task, Split::test, in.seed, prompts, prompts);
  while (walk.next()) {
    const Batch& batch = walk.batch();
    const int64_t reach = std::min(tokens, batch.length - length);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const auto first = batch.tokens.begin() + row * batch.length;
      const auto target = batch.targets.begin() + row * batch.length;
      if (target[batch.length - 1] < 0 && !in.task.generated()) continue;
      starts.emplace_back(first, first + length);
      own.emplace_back(first + length, first + length + reach);
      std::erase(own.back(), in.task.meta_token());
    }
  }
  expect(!starts.empty(), "generation", "{} test sequences of {} tokens expected: got none", prompts, length);

  std::vector<double> repeated, loops, shares;
  for (const int64_t floor : floors) {
    const double lm_floor = static_cast<double>(floor) / 100;
    const Texts texts =
        decode(in.model, starts, {tokens, in.task.length(), "natural", lm_floor, in.task.meta_token()});
    const std::vector<double> of_texts = repetition(texts);
    repeated.insert(repeated.end(), of_texts.begin(), of_texts.end());
    loops.push_back(loop_rate(texts));
    shares.push_back(lm_floor);
  }
  const int64_t n = static_cast<int64_t>(floors.size());
  out.coordinate("lm_floor", shares);
  out.coordinate("ngram", {1, 2, 3, 4});
  out.array(
      "repeated", repeated, {n, kLongestNgram}, {"lm_floor", "ngram"},
      "share of the n-grams of a greedy continuation that occurred in it before (1 - distinct-n), mean");
  out.array("loops", loops, {n}, {"lm_floor"},
            "share of greedy continuations whose second half repeats with a period of at most 16 tokens");
  out.array("repeated_text", repetition(own), {kLongestNgram}, {"ngram"},
            "likewise of the text's own continuations");
  out.scalar("loop_rate", loops.front(), "share of loops at the first floor");
  out.scalar("loop_rate_change", loops.back() - loops.front(), "at the last floor less at the first");
  out.scalar("repeated_4", repeated[kLongestNgram - 1], "share of repeated 4-grams at the first floor");
  out.scalar("prompts", static_cast<double>(starts.size()), "prompts that were continued");
}

}  // namespace

double repeated_ngrams(const std::vector<int32_t>& text, int64_t n) {
  const int64_t count = static_cast<int64_t>(text.size()) - n + 1;
  if (count < 1) return std::nan("");
  std::set<std::vector<int32_t>> seen;
  for (int64_t i = 0; i < count; ++i) seen.emplace(text.begin() + i, text.begin() + i + n);
  return 1.0 - static_cast<double>(seen.size()) / static_cast<double>(count);
}

int64_t loop_period(const std::vector<int32_t>& text, int64_t longest) {
  const int64_t size = static_cast<int64_t>(text.size()), half = size / 2;
  for (int64_t p = 1; p <= std::min(longest, half); ++p) {
    bool periodic = size > half;
    for (int64_t i = size - half; i < size && periodic; ++i) periodic = text[i] == text[i - p];
    if (periodic && half > 0) return p;
  }
  return 0;
}

const MeasureEntry generation_measure = {
    "generation", "repetition and loops in greedy continuations of test prompts (C42, P16)", fields, run,
    plan};

}  // namespace copylab
