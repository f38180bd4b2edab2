// PromptTask: batches, solver and drawn form from a prompt and its answer.
#include "tasks/prompts/prompt_task.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "tasks/distinct.h"

namespace copylab {

using Symbol = Alphabet::Symbol;

namespace {

const std::vector<std::string>& levels() {
  static const std::vector<std::string> names = {"tiny", "easy", "medium", "hard", "extra_hard"};
  return names;
}

}  // namespace

std::vector<int32_t> Draws::distinct(int64_t count, int64_t low, int64_t range) {
  next_ += count;
  return draw_distinct(random_, next_ - count, count, low, range);
}

PromptTask::PromptTask(const char* task, const Settings& settings)
    : task_(task),
      alphabet_(settings.integer("task.vocab")),
      length_(settings.integer("task.length")),
      words_(settings.integer("task.words")) {
  if (words_ == 0) words_ = alphabet_.words();
  expect(words_ <= alphabet_.words(), task,
         "task.words of at most {} expected, for {} of {} ids are kept: got {}", alphabet_.words(),
         Alphabet::kReserved, vocab(), words_);
  const std::string& where = settings.text("task.pause");
  pause_ = where == "right" ? Pause::right : where == "wrong" ? Pause::wrong : Pause::none;
}

// Sequence n of a split is the same whatever the number of rows: n = index · rows + row.
Batch PromptTask::batch(Split split, uint64_t seed, int64_t index, int64_t rows) const {
  Batch b = blank_batch(rows, length_);
  b.meta.assign(b.tokens.size(), 0);
  const std::string purpose = task_ + "." + name_of(split);
  for (int64_t row = 0; row < rows; ++row) {
    const auto n = static_cast<uint64_t>(index * rows + row);
    const auto draws = [&](const char* part) { return Draws(Random(seed, purpose + part, n)); };
    Streams streams{draws(""), draws(".filling"), draws(".pause")};
    const Prompt p = prompt(streams);
    const auto asked = static_cast<int64_t>(p.slices.size());
    expect(static_cast<int64_t>(p.symbols.size()) == length_ + 1, task_.c_str(),
           "{} symbols expected: got {}", length_ + 1, p.symbols.size());
    for (int64_t t = 0; t < length_; ++t) {
      const int64_t cell = row * length_ + t, place = t - (length_ - asked);
      b.tokens[cell] = p.symbols[t];
      b.meta[cell] = p.symbols[t] == alphabet_.meta();
      if (place < 0) continue;
      b.targets[cell] = p.symbols[t + 1];
      b.slice[cell] = p.slices[place];
    }
  }
  return b;
}

std::vector<int32_t> PromptTask::solve(const Batch& batch) const {
  std::vector<int32_t> answers(batch.tokens.size(), -1);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto begin = batch.tokens.begin() + row * length_, end = begin + length_;
    const auto equals = std::find(begin, end, symbol(Symbol::equals));
    if (equals == end) continue;
    std::vector<int32_t> read(begin, equals + 1);
    std::erase(read, alphabet_.meta());
    const std::vector<int32_t> found = answer(read);
    for (int64_t i = 0; i < std::min<int64_t>(static_cast<int64_t>(found.size()), end - equals); ++i)
      answers[equals - batch.tokens.begin() + i] = found[i];
  }
  return answers;
}

std::string PromptTask::show(const Batch& batch, int64_t row) const {
  std::string prompt = "prompt", answer = "answer";
  for (int64_t t = 0; t < batch.length; ++t) {
    const int64_t cell = row * batch.length + t;
    const bool inside = t > 0 && batch.targets[cell - 1] >= 0;  // of the answer, which is read on
    if (!inside) prompt += " " + alphabet_.text(batch.tokens[cell]);
    if (batch.targets[cell] >= 0) answer += " " + alphabet_.text(batch.targets[cell]);
  }
  return prompt + "\n" + answer + "\n";
}

void PromptTask::add_meta(std::vector<int32_t>& symbols) const {
  if (pause_ != Pause::none) symbols.push_back(alphabet_.meta());
}

void PromptTask::add_words(Draws& draws, int64_t count, std::vector<int32_t>& symbols) const {
  for (int64_t i = 0; i < count; ++i) symbols.push_back(word(draws));
}

int64_t PromptTask::filling(int64_t symbols, int64_t metas) const {
  const int64_t room = length_ + 1 - symbols + (pause_ == Pause::none ? metas : 0);
  expect(length_ + 1 >= symbols, task_.c_str(),
         "task.length of at least {} expected, for a prompt of this level: got {}", symbols - 1, length_);
  return room;
}

std::vector<Field> prompt_fields() {
  return {
      {"task.vocab", int64_t{1024},
       "number of token ids V, of which the last 41 are numbers, symbols and the meta-token", 49, 1 << 24},
      {"task.length", int64_t{128}, "positions T per sequence; random words fill what the prompt leaves", 8,
       1 << 20},
      {"task.words", int64_t{0}, "ids that prompts are drawn from, the first ones; 0 = all that are words", 0,
       1 << 24},
      {.path = "task.level",
       .fallback = std::string("easy"),
       .doc = "size of the prompt",
       .choices = levels()},
      {.path = "task.pause",
       .fallback = std::string("right"),
       .doc = "meta-tokens at what the answer depends on, elsewhere, or none",
       .choices = {"right", "wrong", "none"}},
  };
}

int64_t size_or_level(const Settings& settings, const std::string& key,
                      const std::vector<int64_t>& by_level) {
  const int64_t size = settings.integer(key);
  const auto level = std::find(levels().begin(), levels().end(), settings.text("task.level"));
  return size != 0 ? size : by_level.at(level - levels().begin());
}

std::vector<Field> list_fields() {
  std::vector<Field> fields = prompt_fields();
  fields.push_back({"task.lists", int64_t{0}, "lists N; 0 = as task.level says", 0, Alphabet::kNumbers - 1});
  fields.push_back(
      {"task.items", int64_t{0}, "items k of a list; 0 = as task.level says", 0, Alphabet::kNumbers - 1});
  return fields;
}

ListSizes list_sizes(const Settings& settings) {
  return {size_or_level(settings, "task.lists", {2, 2, 4, 8, 16}),
          size_or_level(settings, "task.items", {2, 4, 8, 16, 16})};
}

std::vector<std::vector<std::pair<std::string, Value>>> list_variants() {
  return {{{"task.level", std::string("medium")}, {"task.pause", std::string("wrong")}},
          {{"task.level", std::string("hard")},
           {"task.pause", std::string("none")},
           {"task.length", int64_t{256}}},
          {{"task.level", std::string("extra_hard")}, {"task.length", int64_t{512}}}};
}

std::vector<int64_t> random_cut(Draws& draws, int64_t total, int64_t parts) {
  // Walls among `total` stones: the numbers are the stones between two of them.
  std::vector<int32_t> walls = draws.distinct(parts - 1, 0, total + parts - 1);
  std::sort(walls.begin(), walls.end());
  std::vector<int64_t> sizes;
  int64_t before = -1;
  for (const int32_t wall : walls) {
    sizes.push_back(wall - before - 1);
    before = wall;
  }
  sizes.push_back(total + parts - 1 - before - 1);
  return sizes;
}

std::vector<std::string> octave_names(const std::string& prefix, int64_t largest) {
  std::vector<std::string> names;
  for (int64_t low = 1; low <= largest; low *= 2)
    names.push_back(low == 1 ? prefix + "_1" : fmt::format("{}_{}_{}", prefix, low, 2 * low - 1));
  return names;
}

int32_t octave(int64_t value) {
  return static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(value))) - 1;
}

}  // namespace copylab
