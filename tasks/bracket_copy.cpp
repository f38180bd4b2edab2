// bracket_copy: words, some in brackets, to be said again.
//
// Copying of Shah et al. 2025, arXiv 2509.16278; their prompt strings are not public, so these are ours. k
// words stand in brackets among other words, with a meta-token at each bracket, and all k are asked for.
// Drawn with k = 4, T = 17, answer w5 w1 w1 w9:
//
//   prompt   w3 w8 [ _P_ w5 w1 w1 w9 _P_ ] w2 w7 ? =
//   answer                                           w5 w1 w1 w9     after = the answer is read on: = w5 w1
//   w1
//
// The brackets stand anywhere. Slices are by the place in the answer. Levels: k = 3 (tiny), 4, 8, 16, 32.
#include "tasks/bracket_copy.h"

#include <algorithm>

#include "core/error.h"
#include "tasks/prompts/prompt_task.h"

namespace copylab {
namespace {

using Symbol = Alphabet::Symbol;

class BracketCopy : public PromptTask {
 public:
  explicit BracketCopy(const Settings& settings)
      : PromptTask("bracket_copy", settings), span_(size_or_level(settings, "task.span", {3, 4, 8, 16, 32})) {
    room();
    expect(pause() != Pause::wrong || room() >= 2, "bracket_copy",
           "task.length of at least {} expected, so that task.pause=wrong has places: got {}",
           length() + 2 - room(), length());
  }

  double chance() const override { return 1.0 / static_cast<double>(words()); }
  std::vector<std::string> slices() const override { return octave_names("place", span_); }

 private:
  // [ words ] ? =, the words again, and two meta-tokens.
  int64_t room() const { return filling(2 * span_ + 4 + 2, 2); }

  Prompt prompt(Streams& streams) const override {
    std::vector<int32_t> span, others;
    add_words(streams.content, span_, span);
    const int64_t before = streams.filling.below(room() + 1);
    add_words(streams.filling, room(), others);
    std::vector<int32_t> marked;  // the meta-tokens stand behind these other words
    if (pause() == Pause::wrong) marked = streams.pause.distinct(2, 0, room());

    std::vector<int32_t> s;
    const auto add_others = [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        s.push_back(others[i]);
        if (std::find(marked.begin(), marked.end(), i) != marked.end()) add_meta(s);
      }
    };
    const auto add_border = [&] {
      if (pause() == Pause::right) add_meta(s);
    };
    add_others(0, before);
    s.push_back(symbol(Symbol::open));
    add_border();
    s.insert(s.end(), span.begin(), span.end());
    add_border();
    s.push_back(symbol(Symbol::close));
    add_others(before, room());
    s.insert(s.end(), {symbol(Symbol::question), symbol(Symbol::equals)});
    s.insert(s.end(), span.begin(), span.end());
    std::vector<int32_t> places;
    for (int64_t i = 1; i <= span_; ++i) places.push_back(octave(i));
    return {s, places};
  }

  std::vector<int32_t> answer(const std::vector<int32_t>& prompt) const override {
    const auto open = std::find(prompt.begin(), prompt.end(), symbol(Symbol::open));
    return {open + 1, std::find(open, prompt.end(), symbol(Symbol::close))};
  }

  int64_t span_;
};

std::vector<Field> fields() {
  std::vector<Field> fields = prompt_fields();
  fields.push_back({"task.span", int64_t{0}, "words k in the brackets; 0 = as task.level says", 0, 1 << 20});
  return fields;
}

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<BracketCopy>(settings);
}

std::vector<std::vector<std::pair<std::string, Value>>> variants() {
  return {{{"task.level", std::string("medium")}, {"task.pause", std::string("wrong")}},
          {{"task.level", std::string("hard")}, {"task.pause", std::string("none")}},
          {{"task.level", std::string("extra_hard")}, {"task.length", int64_t{256}}}};
}

}  // namespace

const TaskEntry bracket_copy_task = {
    "bracket_copy", "the words between two brackets with meta-tokens, again", 1, fields, make, variants};

}  // namespace copylab
