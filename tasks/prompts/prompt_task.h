// PromptTask: what the four meta-token tasks share: a prompt, a question, `=`, and an answer with all labels.
#pragma once

#include <string>
#include <vector>

#include "core/random.h"
#include "tasks/prompts/alphabet.h"
#include "tasks/task.h"

namespace copylab {

// Random numbers of one stream, one after another.
class Draws {
 public:
  explicit Draws(const Random& random) : random_(random) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_.below(next_++, n)); }
  // `count` different numbers of low..low+range-1, in random order.
  std::vector<int32_t> distinct(int64_t count, int64_t low, int64_t range);

 private:
  Random random_;
  uint64_t next_ = 0;
};

// The tasks of papers §4.4. A sequence is a prompt of exactly T + 1 symbols, filled with random words, and
// its answer comes last; the only labels are those of the answer.
//
// Each prompt says with ordinary symbols all that its answer depends on, so that a meta-token beside them
// adds no information: arms with and without meta-tokens face the same problem, and the best predictor is
// always right.
//
// Content, filling and place of the meta-tokens are drawn from streams of their own. So prompts of one number
// n have the same content whatever task.pause and (but for what is drawn to fill it) whatever task.length:
//   right   the meta-tokens stand at what the answer depends on
//   wrong   they stand somewhere else
//   none    there are none, and as many more words: T is the same
class PromptTask : public Task {
 public:
  enum class Pause { right, wrong, none };

  int64_t vocab() const override { return alphabet_.vocab(); }
  int64_t length() const override { return length_; }
  int32_t meta_token() const override { return pause_ == Pause::none ? -1 : alphabet_.meta(); }
  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override;
  std::vector<int32_t> solve(const Batch& batch) const override;
  double ceiling() const override { return 1.0; }
  std::string show(const Batch& batch, int64_t row) const override;

 protected:
  struct Prompt {
    std::vector<int32_t> symbols;  // T + 1
    std::vector<int32_t> slices;   // of each symbol of the answer, which are the last ones
  };
  struct Streams {
    Draws content, filling, pause;
  };

  // Reads the settings of prompt_fields(). `task` is the name in messages and the key of all streams.
  PromptTask(const char* task, const Settings& settings);

  virtual Prompt prompt(Streams& streams) const = 0;
  // The answer to a prompt that ends with `=` and has no meta-tokens in it.
  virtual std::vector<int32_t> answer(const std::vector<int32_t>& prompt) const = 0;

  const Alphabet& alphabet() const { return alphabet_; }
  int32_t symbol(Alphabet::Symbol s) const { return alphabet_.symbol(s); }
  int64_t words() const { return words_; }  // that prompts are drawn from: ids 0..words()-1
  int32_t word(Draws& draws) const { return static_cast<int32_t>(draws.below(words_)); }
  Pause pause() const { return pause_; }
  // Appends the meta-token where there are any.
  void add_meta(std::vector<int32_t>& symbols) const;
  void add_words(Draws& draws, int64_t count, std::vector<int32_t>& symbols) const;

  // Words that fill a prompt of `symbols` symbols, of which `metas` are meta-tokens. Throws Error where it
  // does not fit.
  int64_t filling(int64_t symbols, int64_t metas) const;

 private:
  std::string task_;
  Alphabet alphabet_;
  int64_t length_, words_;
  Pause pause_;
};

// task.vocab, task.length, task.words, task.level, task.pause.
std::vector<Field> prompt_fields();
// The setting, or where it is 0 what task.level says: one size each of tiny, easy, medium, hard, extra_hard.
int64_t size_or_level(const Settings& settings, const std::string& key, const std::vector<int64_t>& by_level);

// Of tasks whose prompts are lists: task.lists, task.items, what they or the level say, and the variants to
// test.
struct ListSizes {
  int64_t lists, items;
};
std::vector<Field> list_fields();
ListSizes list_sizes(const Settings& settings);
std::vector<std::vector<std::pair<std::string, Value>>> list_variants();

// `total` cut into `parts` numbers from 0 on that sum to it, every such list equally likely.
std::vector<int64_t> random_cut(Draws& draws, int64_t total, int64_t parts);

// Slices by powers of two: 1, 2 to 3, 4 to 7, … up to `largest`, named prefix_1, prefix_2_3, …
std::vector<std::string> octave_names(const std::string& prefix, int64_t largest);
int32_t octave(int64_t value);

}  // namespace copylab
