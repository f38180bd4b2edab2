// SpamLang: one random symbol, a block of symbols, or several announced symbols repeated over a sequence.
//
// Godey & Artzi, arXiv 2603.10145: a symbol is drawn uniformly from the V of the vocabulary and fills the
// sequence; the model predicts the next token. Drawn with V = 90, T = 6 predictions:
//
//   plain (period 1)     tokens   37 37 37 37 37 37      every target is known from the first token on
//                        targets  37 37 37 37 37 37
//
// In the plain form any earlier position is a right place to copy from, so it cannot tell whether a pointer
// has learnt where to look. Two variants make the source a matter of choice:
//
//   period 3             tokens    8 61 20  8 61 20      a block of m independent symbols, repeated:
//                        targets  61 20  8 61 20  8      x[t] = x[t-m]; the first m-1 targets are unknowable
//                                  ?  ?
//   interleave 2         tokens   #1 70 #0 12 #1 70      k streams, each repeating its own symbol; a marker
//                        targets  70  . 12  . 70  .      #i (id i) announces which stream, at random, shows
//                                  ?     ?               its symbol next. Only symbols are targets.
//
//   ? = not shown yet, so unknowable      . = no label
//
// In `period` the right source is found by position (m-1 steps back). In `interleave` it is found by content:
// the symbol after the same marker, at a random distance, among k candidates. Markers are ids 0..k-1 and
// symbols k..V-1 there. Symbols of one sequence are independent draws, so two streams may agree by chance.
//
// A sequence has T+1 tokens: the model reads the first T and is asked for the last T. Work on this task often
// counts 64 tokens and 63 predictions. It matters for a pointer that cannot point at the current position
// (copy_self off): it has no source for the first target, and its best accuracy is 62/63 there, 63/64 here.
#include "tasks/spamlang.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace copylab {
namespace {

// A target's slice: how often its symbol has been shown in the sequence before.
enum Shown : int32_t { kNever, kOnce, kMore };

class SpamLang : public Task {
 public:
  explicit SpamLang(const Settings& settings)
      : vocab_(settings.integer("task.vocab")),
        length_(settings.integer("task.length")),
        period_(settings.integer("task.period")),
        streams_(settings.integer("task.interleave")) {
    expect(period_ <= length_, "spamlang", "task.period must not exceed task.length: got {}, {}", period_,
           length_);
    expect(period_ == 1 || streams_ == 1, "spamlang",
           "task.period and task.interleave exclude each other: got {}, {}", period_, streams_);
    expect(markers() < vocab_, "spamlang", "task.interleave must leave symbols: got {} markers of {} ids",
           markers(), vocab_);
  }

  int64_t vocab() const override { return vocab_; }
  int64_t length() const override { return length_; }

  // Sequence n of a split is the same whatever the number of rows: n = index · rows + row.
  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override {
    Batch b = blank_batch(rows, length_);
    const std::string purpose = std::string("spamlang.") + name_of(split);
    std::vector<int32_t> sequence(length_ + 1);  // tokens, then the last target
    for (int64_t row = 0; row < rows; ++row) {
      const Random random(seed, purpose, index * rows + row);
      int32_t* targets = &b.targets[row * length_];
      int32_t* slice = &b.slice[row * length_];
      if (markers() > 0)
        draw_streams(random, sequence, targets, slice);
      else
        draw_block(random, sequence, targets, slice);
      std::copy_n(sequence.begin(), length_, &b.tokens[row * length_]);
    }
    return b;
  }

  std::vector<int32_t> solve(const Batch& batch) const override {
    std::vector<int32_t> answers(batch.tokens.size(), -1);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int32_t* tokens = &batch.tokens[row * length_];
      int32_t* answer = &answers[row * length_];
      if (markers() > 0) {
        std::vector<int32_t> symbol(streams_, -1);  // of each stream, once shown
        for (int64_t t = 0; t < length_; t += 2) {
          if (t > 0) symbol[tokens[t - 2]] = tokens[t - 1];
          answer[t] = symbol[tokens[t]];
        }
      } else {
        for (int64_t t = period_ - 1; t < length_; ++t) answer[t] = tokens[t + 1 - period_];
      }
    }
    return answers;
  }

  double ceiling() const override {
    const double known = labels() - unknowable();
    return (known + unknowable() / symbols()) / labels();
  }
  double chance() const override { return 1.0 / vocab_; }

  std::vector<std::string> slices() const override { return {"never_shown", "shown_once", "shown_more"}; }

  std::string show(const Batch& batch, int64_t row) const override {
    const int32_t* tokens = &batch.tokens[row * length_];
    const int32_t* targets = &batch.targets[row * length_];
    const int32_t* slice = &batch.slice[row * length_];
    const int width = static_cast<int>(std::to_string(vocab_ - 1).size()) + 2;
    std::string top = "tokens ", bottom = "targets", notes = "       ";
    for (int64_t t = 0; t < length_; ++t) {
      const bool marker = tokens[t] < markers(), label = targets[t] >= 0;
      top += fmt::format("{:>{}}", (marker ? "#" : "") + std::to_string(tokens[t]), width);
      bottom += fmt::format("{:>{}}", label ? std::to_string(targets[t]) : ".", width);
      notes += fmt::format("{:>{}}", label && slice[t] == kNever ? "?" : "", width);
    }
    notes.erase(notes.find_last_not_of(' ') + 1);
    return top + "\n" + bottom + "\n" + (notes.empty() ? "" : notes + "\n");
  }

  // Draws per symbol decide SpamLang as much as the output layer does: repetitions inside a sequence are not
  // new evidence about which row of the output matrix belongs to which symbol.
  std::vector<std::pair<std::string, double>> budget(int64_t sequences) const override {
    const double drawn = markers() > 0 ? unknowable() : period_;  // symbols that one sequence shows
    const double n = static_cast<double>(sequences);
    return {{"sequences_per_symbol", n * drawn / symbols()},
            {"positions_per_symbol", n * labels() / symbols()}};
  }

 private:
  int64_t markers() const { return streams_ > 1 ? streams_ : 0; }
  double symbols() const { return static_cast<double>(vocab_ - markers()); }
  double labels() const { return static_cast<double>(markers() > 0 ? (length_ + 1) / 2 : length_); }

  // Expected number of targets whose symbol was not shown: for n markers drawn from k streams, the expected
  // number of distinct ones, k (1 - (1 - 1/k)^n).
  double unknowable() const {
    if (markers() == 0) return static_cast<double>(period_ - 1);
    const double k = static_cast<double>(streams_);
    return k * -std::expm1(labels() * std::log1p(-1.0 / k));
  }

  // Draws 0..m-1 are the block.
  void draw_block(const Random& random, std::vector<int32_t>& sequence, int32_t* targets,
                  int32_t* slice) const {
    for (int64_t t = 0; t <= length_; ++t)
      sequence[t] = t < period_ ? static_cast<int32_t>(random.below(t, vocab_)) : sequence[t - period_];
    for (int64_t t = 0; t < length_; ++t) {
      targets[t] = sequence[t + 1];
      slice[t] = static_cast<int32_t>(std::min<int64_t>((t + 1) / period_, kMore));
    }
  }

  // Draws 0..k-1 are the streams' symbols, draw k+i says which stream the i-th marker announces.
  void draw_streams(const Random& random, std::vector<int32_t>& sequence, int32_t* targets,
                    int32_t* slice) const {
    std::vector<int32_t> shown(streams_, kNever);
    for (int64_t t = 0; t <= length_; ++t) {
      const auto stream = random.below(streams_ + t / 2, streams_);
      const auto symbol = static_cast<int32_t>(streams_ + random.below(stream, vocab_ - streams_));
      sequence[t] = t % 2 == 0 ? static_cast<int32_t>(stream) : symbol;
      if (t == length_) break;
      targets[t] = t % 2 == 0 ? symbol : -1;
      slice[t] = t % 2 == 0 ? shown[stream] : kNever;
      if (t % 2 == 0) shown[stream] = std::min<int32_t>(shown[stream] + 1, kMore);
    }
  }

  int64_t vocab_, length_, period_, streams_;
};

std::vector<Field> fields() {
  return {
      {"task.vocab", int64_t{1024}, "number of token ids V", 2, 1 << 30},
      {"task.length", int64_t{64}, "predicted positions T per sequence", 1, 1 << 20},
      {"task.period", int64_t{1}, "symbols m in the repeated block; 1 is plain SpamLang", 1, 1 << 20},
      {"task.interleave", int64_t{1}, "streams k, each announced by its marker; 1 has no markers", 1,
       1 << 20},
  };
}

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<SpamLang>(settings);
}

std::vector<std::vector<std::pair<std::string, Value>>> variants() {
  return {{{"task.period", int64_t{8}}}, {{"task.interleave", int64_t{4}}}};
}

}  // namespace

const TaskEntry spamlang_task = {
    "spamlang", "one symbol, a block (period) or announced symbols (interleave) repeated", 1, fields, make,
    variants};

}  // namespace copylab
