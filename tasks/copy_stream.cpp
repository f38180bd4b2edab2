// Copy stream: words drawn without memory, and phrases that come again, at a chosen rate.
//
// What a pointer can and cannot do, apart: a sequence has K phrases of n words each, which no other sequence
// has. A phrase is introduced by its cue; the first time it is new, from then on every word of it can be
// copied from where it stood before. All other words are drawn one by one from one distribution, so that the
// context says nothing of them. Drawn with V = 64, K = 2, n = 3, T = 20:
//
//   tokens  11 20 21 14 44  0  9  8 31 25  8 14 10  8  3 21  8 19  8  3
//   targets 20 21 14 44  0  9  8 31 25  8 14 10  8  3 21  8 19  8  3 21
//                        c                          c              c  ^
//                           phrase 0                   phrase 3       phrase 3 again, cut off
//
//   c = a cue comes    ^ = copied
//
// Ids: cues 0..V/8-1, common words V/8..V/2-1, rare words V/2..V-1. A word is rare with probability
// task.rare_rate, then any rare word alike; else common word r = 1, 2, … has a probability proportional to
// 1/r (Zipf). Outside of phrases the next token is one of the sequence's K cues with probability u = c / (n ·
// (1 - c)), which makes task.copy_rate = c the share of words that stand in phrases in the long run; the
// first showing of each phrase makes the share that can be copied a little smaller. With c = 0 nothing
// depends on the context at all.
#include "tasks/copy_stream.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "tasks/distinct.h"

namespace copylab {
namespace {

enum Slice : int32_t { kCopied, kNew, kRare };

class CopyStream : public Task {
 public:
  explicit CopyStream(const Settings& settings)
      : vocab_(settings.integer("task.vocab")),
        length_(settings.integer("task.length")),
        phrases_(settings.integer("task.phrases")),
        phrase_length_(settings.integer("task.phrase_length")),
        copy_rate_(settings.real("task.copy_rate")),
        rare_rate_(settings.real("task.rare_rate")) {
    expect(phrases_ <= cues(), "copy_stream", "task.vocab of at least {} expected, for {} cues: got {}",
           8 * phrases_, phrases_, vocab_);
    const double n = static_cast<double>(phrase_length_);
    cue_rate_ = copy_rate_ / (n * (1.0 - copy_rate_));
    expect(cue_rate_ <= 1.0, "copy_stream",
           "task.copy_rate of at most {:.3f} expected for phrases of {} words: got {}", n / (n + 1.0),
           phrase_length_, copy_rate_);
    double sum = 0;
    for (int64_t r = 1; r <= common(); ++r) {
      sum += 1.0 / static_cast<double>(r);
      common_up_to_.push_back(sum);
    }
    for (double& x : common_up_to_) x /= sum;
    best_word_ = std::max((1.0 - rare_rate_) * common_up_to_[0], rare_rate_ / static_cast<double>(rare()));
    expectations();
  }

  int64_t vocab() const override { return vocab_; }
  int64_t length() const override { return length_; }

  // Sequence n of a split is the same whatever the number of rows: n = index · rows + row. Draws 0..K-1 are
  // the cues, the next 2·K·n the words of the phrases; then four for each position: whether there is a cue,
  // which one, and the word.
  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override {
    Batch b = blank_batch(rows, length_);
    const std::string purpose = std::string("copy_stream.") + name_of(split);
    for (int64_t row = 0; row < rows; ++row) {
      const Random random(seed, purpose, index * rows + row);
      const std::vector<int32_t> cue = draw_distinct(random, 0, phrases_, 0, cues());
      std::vector<bool> shown(phrases_, false);
      int64_t phrase = -1, left = 0;  // in a phrase: which, and how many of its words are still to come
      bool known = false;             // it was shown before
      for (int64_t t = 0; t <= length_; ++t) {
        const uint64_t draw = static_cast<uint64_t>(phrases_ + 2 * phrases_ * phrase_length_ + 4 * t);
        int32_t token;
        bool copied = false;
        if (left > 0) {
          const int64_t i = phrase * phrase_length_ + phrase_length_ - left--;
          token = word(random, static_cast<uint64_t>(phrases_ + 2 * i));
          copied = known;
        } else if (random.uniform(draw) < cue_rate_) {
          phrase = static_cast<int64_t>(random.below(draw + 1, static_cast<uint64_t>(phrases_)));
          token = cue[phrase];
          left = phrase_length_;
          known = shown[phrase];
          shown[phrase] = true;
        } else {
          token = word(random, draw + 2);
        }
        if (t < length_) b.tokens[row * length_ + t] = token;
        if (t == 0) continue;
        const int64_t cell = row * length_ + t - 1;
        b.targets[cell] = token;
        b.slice[cell] = copied ? kCopied : token >= first_rare() ? kRare : kNew;
      }
    }
    return b;
  }

  // A sequence starts outside of a phrase, cues stand nowhere else, and phrases have a known length: so every
  // position's place is known from what was read.
  std::vector<int32_t> solve(const Batch& batch) const override {
    std::vector<int32_t> answers(batch.tokens.size(), -1);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int32_t* tokens = &batch.tokens[row * length_];
      std::map<int32_t, int64_t> where;  // of each cue, the position of its first showing
      int64_t cue_at = -1;               // of the phrase that position t is in
      for (int64_t t = 0; t < length_; ++t) {
        if (cue_at >= 0 && t - cue_at >= phrase_length_) cue_at = -1;  // its last word has just been read
        if (cue_at < 0 && tokens[t] < cues()) {
          cue_at = t;
          where.emplace(tokens[t], t);
        }
        if (cue_at < 0) continue;
        const int64_t first = where.at(tokens[cue_at]);
        if (first < cue_at) answers[row * length_ + t] = tokens[first + t - cue_at + 1];
      }
    }
    return answers;
  }

  double ceiling() const override { return (copied_ + guessed_) / static_cast<double>(length_); }
  double chance() const override { return 1.0 / static_cast<double>(vocab_); }
  double guess() const override { return guessed_ / (static_cast<double>(length_) - copied_); }
  // What can be copied; of the rest, rare words apart.
  std::vector<std::string> slices() const override { return {"copied", "new", "rare"}; }

  std::string show(const Batch& batch, int64_t row) const override {
    const int width = static_cast<int>(std::to_string(vocab_ - 1).size()) + 1;
    std::string top = "tokens ", middle = "targets", bottom = "       ";
    for (int64_t t = 0; t < length_; ++t) {
      const int64_t i = row * length_ + t;
      top += fmt::format("{:>{}}", batch.tokens[i], width);
      middle += fmt::format("{:>{}}", batch.targets[i], width);
      bottom += fmt::format("{:>{}}",
                            batch.slice[i] == kCopied   ? "^"
                            : batch.targets[i] < cues() ? "c"
                                                        : "",
                            width);
    }
    bottom.erase(bottom.find_last_not_of(' ') + 1);
    return top + "\n" + middle + "\n" + bottom + "\n";
  }

  std::vector<std::pair<std::string, double>> budget(int64_t sequences) const override {
    return {{"copied_targets", static_cast<double>(sequences) * copied_},
            {"copied_share", copied_ / static_cast<double>(length_)}};
  }

 private:
  int64_t cues() const { return vocab_ / 8; }
  int64_t common() const { return first_rare() - cues(); }
  int64_t first_rare() const { return vocab_ / 2; }
  int64_t rare() const { return vocab_ - first_rare(); }

  // From draws `draw` and `draw` + 1.
  int32_t word(const Random& random, uint64_t draw) const {
    if (random.uniform(draw) < rare_rate_)
      return static_cast<int32_t>(first_rare() + random.below(draw + 1, static_cast<uint64_t>(rare())));
    const auto found = std::upper_bound(common_up_to_.begin(), common_up_to_.end(), random.uniform(draw + 1));
    const int64_t rank = std::min<int64_t>(found - common_up_to_.begin(), common() - 1);
    return static_cast<int32_t>(cues() + rank);
  }

  // Outside of a phrase, when d of the K cues have been seen: the most probable token is a word, a cue that
  // was seen, or one of those that were not, each of which is any of the other ids for cues.
  double best_outside(int64_t seen) const {
    const double k = static_cast<double>(phrases_), d = static_cast<double>(seen);
    double best = (1.0 - cue_rate_) * best_word_;
    if (seen > 0) best = std::max(best, cue_rate_ / k);
    if (seen < phrases_) best = std::max(best, cue_rate_ * (k - d) / k / (static_cast<double>(cues()) - d));
    return best;
  }

  // Expected numbers of copied targets, and of the others that the best guess gets right, of a sequence: over
  // the probability that position t is outside of a phrase with d cues seen.
  void expectations() {
    const double k = static_cast<double>(phrases_);
    std::vector<std::vector<double>> outside(length_ + phrase_length_ + 2,
                                             std::vector<double>(phrases_ + 1, 0.0));
    outside[0][0] = 1.0;
    for (int64_t t = 0; t <= length_; ++t) {
      // Words of a phrase whose cue is at t that are still targets.
      const double words = static_cast<double>(std::min(phrase_length_, length_ - t));
      for (int64_t d = 0; d <= phrases_; ++d) {
        const double p = outside[t][d];
        const double again = p * cue_rate_ * static_cast<double>(d) / k, anew = p * cue_rate_ - again;
        if (t > 0) guessed_ += p * best_outside(d);
        copied_ += again * words;
        guessed_ += anew * words * best_word_;
        outside[t + 1][d] += p * (1.0 - cue_rate_);
        outside[t + phrase_length_ + 1][d] += again;
        if (d < phrases_) outside[t + phrase_length_ + 1][d + 1] += anew;
      }
    }
  }

  int64_t vocab_, length_, phrases_, phrase_length_;
  double copy_rate_, rare_rate_, cue_rate_ = 0, best_word_ = 0;
  std::vector<double> common_up_to_;  // cumulated probabilities of the common words
  double copied_ = 0, guessed_ = 0;   // of a sequence, expected
};

std::vector<Field> fields() {
  return {
      {"task.vocab", int64_t{1024},
       "number of token ids V: an eighth cues, three eighths common words, half rare", 16, 1 << 24},
      {"task.length", int64_t{128}, "predicted positions T per sequence", 1, 1 << 20},
      {"task.copy_rate", 0.4, "share of words that stand in phrases, in the long run", 0.0, 0.99},
      {"task.rare_rate", 0.1, "probability that a word is one of the rare ones", 0.0, 1.0},
      {"task.phrases", int64_t{4}, "different phrases K of a sequence", 1, 1 << 20},
      {"task.phrase_length", int64_t{8}, "words n of a phrase, after its cue", 1, 1 << 20},
  };
}

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<CopyStream>(settings);
}

std::vector<std::vector<std::pair<std::string, Value>>> variants() {
  return {{{"task.copy_rate", 0.0}},
          {{"task.copy_rate", 0.8}, {"task.rare_rate", 0.5}},
          {{"task.vocab", int64_t{64}},
           {"task.length", int64_t{20}},
           {"task.phrases", int64_t{2}},
           {"task.phrase_length", int64_t{3}},
           {"task.rare_rate", 1.0}}};
}

}  // namespace

const TaskEntry copy_stream_task = {
    "copy_stream",
    "words drawn without memory, and phrases that come again at a chosen rate",
    1,
    fields,
    make,
    variants};

}  // namespace copylab
