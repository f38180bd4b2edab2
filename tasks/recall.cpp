// Recall: key-value pairs, then keys again, each to be answered with its value (MQAR).
//
// Multi-query associative recall of Arora et al. 2023, arXiv 2312.04927, as in their code: n pairs fill the
// first 2n positions; then each key comes again, once, at a distance drawn from a power law. Keys are ids
// 1..V/2-1 and values V/2..V-1. Drawn with V = 100, n = 2, T = 12:
//
//   tokens   7 61 22 90 | 22 55 71 83  7 94 58 66      k v k v, then slots of two: a key and noise, or noise
//   targets  .  .  .  .   90  .  .  . 61  .  .  .      labels only where a key asks
//
// The s-th slot is chosen with weight s^(a-1), a = task.power: near ones by far, if a is small. The answer is
// not shown after the key. Noise is drawn from the values, so that no noise token is a key. The value to copy
// stands one position after the key that matches: a pointer that takes the token at the key must find it by a
// key state that remembers the token before.
#include "tasks/recall.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "tasks/distinct.h"

namespace copylab {
namespace {

class Recall : public Task {
 public:
  explicit Recall(const Settings& settings)
      : vocab_(settings.integer("task.vocab")),
        length_(settings.integer("task.length")),
        pairs_(settings.integer("task.pairs")),
        power_(settings.real("task.power")) {
    expect(pairs_ <= slots(), "recall",
           "task.length of at least {} expected, for {} pairs and as many slots of two: got {}",
           4 * pairs_ - 1, pairs_, length_);
    expect(pairs_ < first_value(), "recall", "task.vocab must hold {} keys in its lower half: got {}", pairs_,
           vocab_);
  }

  int64_t vocab() const override { return vocab_; }
  int64_t length() const override { return length_; }

  // Sequence n of a split is the same whatever the number of rows: n = index · rows + row. Draws 0..n-1 are
  // the keys, the next n the values, then one for each slot and one for each position's noise.
  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override {
    Batch b = blank_batch(rows, length_);
    const std::string purpose = std::string("recall.") + name_of(split);
    for (int64_t row = 0; row < rows; ++row) {
      const Random random(seed, purpose, index * rows + row);
      int32_t* tokens = &b.tokens[row * length_];
      const auto value = [&](int64_t draw) {
        return static_cast<int32_t>(first_value() + random.below(draw, vocab_ - first_value()));
      };
      const std::vector<int32_t> keys = draw_distinct(random, 0, pairs_, 1, first_value() - 1);
      for (int64_t t = 2 * pairs_; t < length_; ++t) tokens[t] = value(2 * pairs_ + slots() + t);
      const std::vector<int64_t> chosen = choose_slots(random);
      for (int64_t i = 0; i < pairs_; ++i) {
        const int32_t answer = value(pairs_ + i);
        tokens[2 * i] = keys[i];
        tokens[2 * i + 1] = answer;
        const int64_t t = 2 * (pairs_ + chosen[i]);
        tokens[t] = keys[i];
        b.targets[row * length_ + t] = answer;
        b.slice[row * length_ + t] = bucket(t - 2 * i);
      }
    }
    return b;
  }

  std::vector<int32_t> solve(const Batch& batch) const override {
    std::vector<int32_t> answers(batch.tokens.size(), -1);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int32_t* tokens = &batch.tokens[row * length_];
      for (int64_t t = 2 * pairs_; t < length_; ++t)
        for (int64_t i = 0; i < pairs_; ++i)
          if (tokens[2 * i] == tokens[t]) answers[row * length_ + t] = tokens[2 * i + 1];
    }
    return answers;
  }

  double ceiling() const override { return 1.0; }
  double chance() const override { return 1.0 / static_cast<double>(vocab_); }

  // By the distance from a key to its question: 2 or 3 positions, 4 to 7, ...
  std::vector<std::string> slices() const override {
    std::vector<std::string> names;
    for (int64_t low = 2; low < length_; low *= 2)
      names.push_back(fmt::format("distance_{}_{}", low, 2 * low - 1));
    return names;
  }

  std::string show(const Batch& batch, int64_t row) const override {
    const int width = static_cast<int>(std::to_string(vocab_ - 1).size()) + 1;
    std::string top = "tokens ", bottom = "targets";
    for (int64_t t = 0; t < length_; ++t) {
      const int64_t i = row * length_ + t;
      if (t == 2 * pairs_) top += " |", bottom += "  ";
      top += fmt::format("{:>{}}", batch.tokens[i], width);
      bottom += fmt::format("{:>{}}", batch.targets[i] < 0 ? "." : std::to_string(batch.targets[i]), width);
    }
    return top + "\n" + bottom + "\n";
  }

  std::vector<std::pair<std::string, double>> budget(int64_t sequences) const override {
    const double shown = static_cast<double>(sequences * pairs_);
    return {{"sequences_per_key", shown / static_cast<double>(first_value() - 1)}};
  }

 private:
  int64_t first_value() const { return vocab_ / 2; }
  int64_t slots() const { return (length_ + 1) / 2 - pairs_; }
  static int32_t bucket(int64_t distance) {
    return static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(distance))) - 2;
  }

  // A slot for each key, one after another with the weights of those left: the n first arrivals of
  // exponential clocks that run at these weights, in order of arrival.
  std::vector<int64_t> choose_slots(const Random& random) const {
    std::vector<double> arrival(slots());
    for (int64_t s = 0; s < slots(); ++s)
      arrival[s] = -std::log1p(-random.uniform(2 * pairs_ + s)) * std::pow(s + 1.0, 1.0 - power_);
    std::vector<int64_t> order(slots());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + pairs_, order.end(), [&](int64_t a, int64_t b) {
      return std::pair(arrival[a], a) < std::pair(arrival[b], b);
    });
    order.resize(pairs_);
    return order;
  }

  int64_t vocab_, length_, pairs_;
  double power_;
};

std::vector<Field> fields() {
  return {
      {"task.vocab", int64_t{8192}, "number of token ids V: keys in the lower half, values in the upper", 6,
       1 << 30},
      {"task.length", int64_t{64}, "positions T per sequence", 4, 1 << 20},
      {"task.pairs", int64_t{4}, "key-value pairs n, each asked for once", 1, 1 << 18},
      {"task.power", 0.01, "exponent a of the slots' weights s^(a-1): 1 = all alike, near 0 = near ones", 0.0,
       1.0},
  };
}

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<Recall>(settings);
}

// The four sizes of the paper.
std::vector<std::vector<std::pair<std::string, Value>>> variants() {
  std::vector<std::vector<std::pair<std::string, Value>>> sizes;
  for (const auto& [length, pairs] : {std::pair<int64_t, int64_t>{128, 8}, {256, 16}, {512, 64}})
    sizes.push_back({{"task.length", length}, {"task.pairs", pairs}});
  return sizes;
}

}  // namespace

const TaskEntry recall_task = {"recall", "key-value pairs, then keys to be answered with their values (MQAR)",
                               1,        fields,
                               make,     variants};

}  // namespace copylab
