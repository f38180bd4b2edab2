// Induction: blocks of random tokens shown again, to be copied by what followed the same token before.
//
// Olsson et al. 2022, arXiv 2209.11895: r_1 .. r_T r_1 .. r_T. From its second token on, the second copy can
// be told by the rule "look for the present token further up, and say what came after it". Drawn with T = 4:
//
//   fixed block       tokens    7 41  3 12  7 41  3       (a sequence of 2T tokens: 2T - 1 predictions)
//                     targets  41  3 12  7 41  3 12
//                               ?  ?  ?  |  =  =  =
//
//   block 3 to 4      tokens   50  7 41  3  7 41  3       the block has any length of the range (here 3);
//                     targets   7 41  3  . 41  3  .       the room left is noise before and behind the
//                               ?  ?  ?     =  =          copies: neither place nor distance helps
//
//   gap 2, block 3    tokens    7 41  3 60 22  7 41       noise between the copies
//                     targets  41  3 60 22  7 41  3
//                               ?  ?  ?  ?  |  =  =
//
//   ? = not shown before     | = first token of a copy     = = inducible     . = no label
//
// No token occurs twice before the second copy begins, so the token before determines an inducible one. The
// first token of the second copy can be told by its place when the block is fixed. With a range it is a
// matter of chance when the copy begins, and that target has no label, nor has the noise behind the last
// copy.
#include "tasks/induction.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "tasks/distinct.h"

namespace copylab {
namespace {

enum Slice : int32_t { kFirstCopy, kCopyStart, kInducible };

class Induction : public Task {
 public:
  explicit Induction(const Settings& settings)
      : vocab_(settings.integer("task.vocab")),
        block_(settings.integer("task.block")),
        block_min_(settings.integer("task.block_min") ? settings.integer("task.block_min") : block_),
        copies_(settings.integer("task.copies")),
        gap_(settings.integer("task.gap")),
        label_all_(settings.text("task.labels") == "all") {
    expect(block_min_ <= block_, "induction", "task.block_min must not exceed task.block: got {}, {}",
           block_min_, block_);
    expect(gap_ == 0 || copies_ == 2, "induction", "task.gap needs task.copies = 2: got gap {}, {} copies",
           gap_, copies_);
    expect(different(block_min_) <= vocab_, "induction",
           "task.vocab must hold the {} different tokens of a sequence: got {}", different(block_min_),
           vocab_);
  }

  int64_t vocab() const override { return vocab_; }
  int64_t length() const override { return tokens() - 1; }

  // Sequence n of a split is the same whatever the number of rows: n = index · rows + row. Draw 0 is the
  // block's length, the next ones are its different tokens, and the last is how many of them lie behind the
  // copies.
  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override {
    Batch b = blank_batch(rows, length());
    const std::string purpose = std::string("induction.") + name_of(split);
    for (int64_t row = 0; row < rows; ++row) {
      const Random random(seed, purpose, index * rows + row);
      const int64_t block = block_min_ + static_cast<int64_t>(random.below(0, block_ - block_min_ + 1));
      const std::vector<int32_t> drawn = draw_distinct(random, 1, different(block), 0, vocab_);
      const int64_t behind = static_cast<int64_t>(random.below(1 + different(block), room(block) + 1));
      const int64_t second = different(block) - behind;  // where the second copy begins
      const int64_t end = tokens() - behind;
      std::vector<int32_t> sequence(drawn.begin(), drawn.begin() + second);
      for (int64_t i = second; i < end; ++i) sequence.push_back(sequence[i - block - gap_]);
      sequence.insert(sequence.end(), drawn.begin() + second, drawn.end());

      for (int64_t t = 0; t < length(); ++t) {
        const int64_t next = t + 1, i = row * length() + t;
        b.tokens[i] = sequence[t];
        b.slice[i] = next < second || next >= end   ? kFirstCopy
                     : (next - second) % block == 0 ? kCopyStart
                                                    : kInducible;
        const bool label = next < second ? label_all_ : next < end && (next > second || fixed());
        b.targets[i] = label ? sequence[next] : -1;
      }
    }
    return b;
  }

  std::vector<int32_t> solve(const Batch& batch) const override {
    std::vector<int32_t> answers(batch.tokens.size(), -1);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int32_t* tokens = &batch.tokens[row * length()];
      for (int64_t t = 0; t < length(); ++t) {
        int64_t source = t - block_ - gap_;  // a fixed block repeats at a known distance
        if (!fixed()) source = std::find(tokens, tokens + t, tokens[t]) - tokens;
        if (source >= -1 && source < t) answers[row * length() + t] = tokens[source + 1];
      }
    }
    return answers;
  }

  double ceiling() const override {
    if (!label_all_) return 1.0;
    // Before the second copy the next token is any that has not been shown; whoever knows that guesses right
    // once in as many tries.
    double known = 0, labels = 0;  // expected of one sequence
    const double blocks = static_cast<double>(block_ - block_min_ + 1);
    for (int64_t block = block_min_; block <= block_; ++block) {
      const double weight = 1.0 / blocks / static_cast<double>(room(block) + 1);
      for (int64_t behind = 0; behind <= room(block); ++behind) {
        const int64_t second = different(block) - behind, end = tokens() - behind;
        const double copied = static_cast<double>(end - second - (fixed() ? 0 : 1));
        for (int64_t shown = 1; shown < second; ++shown)
          known += weight / static_cast<double>(vocab_ - shown);
        known += weight * copied;
        labels += weight * (static_cast<double>(second - 1) + copied);
      }
    }
    return known / labels;
  }
  double chance() const override { return 1.0 / static_cast<double>(vocab_); }

  std::vector<std::string> slices() const override { return {"first_copy", "copy_start", "inducible"}; }

  std::string show(const Batch& batch, int64_t row) const override {
    const int width = static_cast<int>(std::to_string(vocab_ - 1).size()) + 1;
    std::string top = "tokens ", bottom = "targets", notes = "       ";
    for (int64_t i = row * length(); i < (row + 1) * length(); ++i) {
      const bool label = batch.targets[i] >= 0;
      top += fmt::format("{:>{}}", batch.tokens[i], width);
      bottom += fmt::format("{:>{}}", label ? std::to_string(batch.targets[i]) : ".", width);
      notes += fmt::format("{:>{}}", label ? std::string(1, "?|="[batch.slice[i]]) : "", width);
    }
    return top + "\n" + bottom + "\n" + notes + "\n";
  }

 private:
  bool fixed() const { return block_min_ == block_; }
  int64_t tokens() const { return copies_ * block_ + gap_; }
  // Noise around the copies of a block.
  int64_t room(int64_t block) const { return copies_ * (block_ - block); }
  // The block, the gap, and the noise around the copies: all different.
  int64_t different(int64_t block) const { return tokens() - (copies_ - 1) * block; }

  int64_t vocab_, block_, block_min_, copies_, gap_;
  bool label_all_;
};

std::vector<Field> fields() {
  return {
      {"task.vocab", int64_t{512}, "number of token ids V", 2, 1 << 30},
      {"task.block", int64_t{32}, "tokens T of the block that is shown again", 2, 1 << 18},
      {"task.block_min", int64_t{0}, "shortest block, if each sequence draws its own; 0 = task.block", 0,
       1 << 18},
      {"task.copies", int64_t{2}, "times the block is shown", 2, 1 << 10},
      {"task.gap", int64_t{0}, "noise tokens between two copies", 0, 1 << 18},
      {"task.labels",
       std::string("all"),
       "all: every position; copies: the second copy and later ones only",
       0,
       0,
       {"all", "copies"}},
  };
}

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<Induction>(settings);
}

std::vector<std::vector<std::pair<std::string, Value>>> variants() {
  return {{{"task.block_min", int64_t{8}}},
          {{"task.labels", std::string("copies")}, {"task.gap", int64_t{5}}},
          {{"task.copies", int64_t{4}}, {"task.block_min", int64_t{20}}}};
}

}  // namespace

const TaskEntry induction_task = {
    "induction", "blocks of random tokens shown again, fixed or of any length", 1, fields, make, variants};

}  // namespace copylab
