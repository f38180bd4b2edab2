// list_recall: lists with names, and a question for one item of one of them.
//
// List Recall ("List Pointer") of Shah et al. 2025, arXiv 2509.16278; their prompt strings are not public, so
// these are ours. N lists of k words, each with a number as its name; a meta-token behind the items of the
// list that is asked for, and one behind the question. Drawn with N = 2, k = 4, T = 26, answer w7:
//
//   prompt  L 9 : w5 w1 w8 w2 ; w3 w6 L 4 : w7 w4 w1 w9 _P_ ; w2 ? L 4 1 _P_ =     the first item of list 4
//   answer                                                                    w7
//
// Names are different numbers of 1..31 in no order, items are any words, and words fill the room before,
// between and behind the lists in random portions: neither place nor distance tells the item. Slices are by
// the distance from `=` back to the item. Levels: (N, k) = (2, 2), (2, 4), (4, 8), (8, 16),
// (16, 16).
#include "tasks/list_recall.h"

#include <algorithm>

#include "core/error.h"
#include "tasks/prompts/prompt_task.h"

namespace copylab {
namespace {

using Symbol = Alphabet::Symbol;

class ListRecall : public PromptTask {
 public:
  explicit ListRecall(const Settings& settings)
      : PromptTask("list_recall", settings),
        lists_(list_sizes(settings).lists),
        items_(list_sizes(settings).items) {
    expect(pause() != Pause::wrong || lists_ > 1, "list_recall",
           "task.pause=wrong needs task.lists of at least 2");
    room();
  }

  double chance() const override { return 1.0 / static_cast<double>(words()); }
  std::vector<std::string> slices() const override { return octave_names("distance", length()); }

 private:
  // L n : items ; for each list, ? L n i =, the answer, and two meta-tokens.
  int64_t room() const { return filling(lists_ * (items_ + 4) + 6 + 2, 2); }

  Prompt prompt(Streams& streams) const override {
    Draws& content = streams.content;
    const std::vector<int32_t> names = content.distinct(lists_, 1, Alphabet::kNumbers - 1);
    std::vector<std::vector<int32_t>> lists(lists_);
    for (auto& items : lists) add_words(content, items_, items);
    const int64_t asked = content.below(lists_), item = content.below(items_);
    int64_t marked = asked;
    if (pause() == Pause::wrong) marked = (asked + 1 + streams.pause.below(lists_ - 1)) % lists_;

    const std::vector<int64_t> room_before = random_cut(streams.filling, room(), lists_ + 1);
    std::vector<int32_t> s;
    int64_t source = 0;
    for (int64_t i = 0; i < lists_; ++i) {
      add_words(streams.filling, room_before[i], s);
      s.insert(s.end(), {symbol(Symbol::list), alphabet().number(names[i]), symbol(Symbol::colon)});
      if (i == asked) source = static_cast<int64_t>(s.size()) + item;
      s.insert(s.end(), lists[i].begin(), lists[i].end());
      if (i == marked) add_meta(s);
      s.push_back(symbol(Symbol::semicolon));
    }
    add_words(streams.filling, room_before[lists_], s);
    s.insert(s.end(), {symbol(Symbol::question), symbol(Symbol::list), alphabet().number(names[asked]),
                       alphabet().number(item + 1)});
    add_meta(s);
    s.push_back(symbol(Symbol::equals));
    const int64_t distance = static_cast<int64_t>(s.size()) - 1 - source;
    s.push_back(lists[asked][item]);
    return {s, {octave(distance)}};
  }

  std::vector<int32_t> answer(const std::vector<int32_t>& prompt) const override {
    const size_t question = prompt.size() - 5;  // ? L n i =
    for (size_t i = 0; i + 3 < question; ++i)
      if (prompt[i] == symbol(Symbol::list) && prompt[i + 1] == prompt[question + 2])
        return {prompt[i + 2 + alphabet().value(prompt[question + 3])]};
    return {};
  }

  int64_t lists_, items_;
};

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<ListRecall>(settings);
}

}  // namespace

const TaskEntry list_recall_task = {
    "list_recall", "one item of a named list, a meta-token behind the list", 1, list_fields, make,
    list_variants};

}  // namespace copylab
