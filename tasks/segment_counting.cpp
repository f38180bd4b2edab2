// segment_counting: lists, one with a marked segment, and a question how often an item occurs in it.
//
// Segment Counting of Shah et al. 2025, arXiv 2509.16278; their prompt strings are not public, so these are
// ours. N lists of k items; in one of them s = k/2 items stand in brackets, with meta-tokens inside of the
// brackets. Drawn with N = 2, k = 4, s = 2, T = 26, answer 1:
//
//   prompt  L 1 : w5 w1 w1 w2 ; w3 L 2 : w5 [ _P_ w1 w9 _P_ ] w1 ; w4 ? # w1 =     one w1 in the brackets
//   answer                                                              1
//
// The count is any of 0..s with equal chance. All items of a prompt are of four kinds, so that the item asked
// for is outside of the brackets as well, and words fill the room between the lists in random portions.
// Slices are by the count. Levels: (N, k) = (2, 2), where the segment is a whole list, (2, 4), (4, 8), (8,
// 16), (16, 16).
#include "tasks/segment_counting.h"

#include <algorithm>

#include "core/error.h"
#include "tasks/prompts/prompt_task.h"

namespace copylab {
namespace {

using Symbol = Alphabet::Symbol;

constexpr int64_t kKinds = 4;

class SegmentCounting : public PromptTask {
 public:
  explicit SegmentCounting(const Settings& settings)
      : PromptTask("segment_counting", settings),
        lists_(list_sizes(settings).lists),
        items_(list_sizes(settings).items),
        segment_(settings.integer("task.segment")) {
    if (segment_ == 0) segment_ = items_ <= 2 ? items_ : items_ / 2;
    expect(segment_ <= items_, "segment_counting",
           "task.segment of at most {} expected, the items of a list: got {}", items_, segment_);
    expect(pause() != Pause::wrong || lists_ > 1, "segment_counting",
           "task.pause=wrong needs task.lists of at least 2");
    expect(words() >= kKinds, "segment_counting", "task.words of at least {} expected: got {}", kKinds,
           words());
    room();
  }

  double chance() const override { return 1.0 / static_cast<double>(segment_ + 1); }
  std::vector<std::string> slices() const override {
    std::vector<std::string> names;
    for (int64_t n = 0; n <= segment_; ++n) names.push_back("count_" + std::to_string(n));
    return names;
  }

 private:
  // L n : items ; for each list, [ ], ? # x =, the answer, and two meta-tokens.
  int64_t room() const { return filling(lists_ * (items_ + 4) + 2 + 5 + 2, 2); }

  Prompt prompt(Streams& streams) const override {
    Draws& content = streams.content;
    const std::vector<int32_t> kinds = content.distinct(kKinds, 0, words());  // kinds[0] is asked for
    std::vector<std::vector<int32_t>> lists(lists_);
    for (auto& items : lists)
      for (int64_t i = 0; i < items_; ++i) items.push_back(kinds[content.below(kKinds)]);
    const int64_t asked = content.below(lists_), first = content.below(items_ - segment_ + 1);
    const int64_t count = content.below(segment_ + 1);
    for (int64_t i = 0; i < segment_; ++i) lists[asked][first + i] = kinds[1 + content.below(kKinds - 1)];
    for (const int32_t place : content.distinct(count, first, segment_)) lists[asked][place] = kinds[0];

    int64_t marked = asked, marked_first = first;
    if (pause() == Pause::wrong) {
      marked = (asked + 1 + streams.pause.below(lists_ - 1)) % lists_;
      marked_first = streams.pause.below(items_ - segment_ + 1);
    }
    const std::vector<int64_t> room_before = random_cut(streams.filling, room(), lists_ + 1);
    std::vector<int32_t> s;
    for (int64_t n = 0; n < lists_; ++n) {
      add_words(streams.filling, room_before[n], s);
      s.insert(s.end(), {symbol(Symbol::list), alphabet().number(n + 1), symbol(Symbol::colon)});
      for (int64_t i = 0; i <= items_; ++i) {  // borders of the segment stand before item i
        if (n == marked && i == marked_first + segment_) add_meta(s);
        if (n == asked && i == first + segment_) s.push_back(symbol(Symbol::close));
        if (n == asked && i == first) s.push_back(symbol(Symbol::open));
        if (n == marked && i == marked_first) add_meta(s);
        if (i < items_) s.push_back(lists[n][i]);
      }
      s.push_back(symbol(Symbol::semicolon));
    }
    add_words(streams.filling, room_before[lists_], s);
    s.insert(s.end(), {symbol(Symbol::question), symbol(Symbol::count), kinds[0], symbol(Symbol::equals),
                       alphabet().number(count)});
    return {s, {static_cast<int32_t>(count)}};
  }

  std::vector<int32_t> answer(const std::vector<int32_t>& prompt) const override {
    const int32_t item = prompt[prompt.size() - 2];
    const auto open = std::find(prompt.begin(), prompt.end(), symbol(Symbol::open));
    const auto close = std::find(open, prompt.end(), symbol(Symbol::close));
    return {alphabet().number(std::count(open, close, item))};
  }

  int64_t lists_, items_, segment_;
};

std::vector<Field> fields() {
  std::vector<Field> fields = list_fields();
  fields.push_back({"task.segment", int64_t{0},
                    "items s of the segment; 0 = half of a list, or the whole of one up to 2", 0,
                    Alphabet::kNumbers - 1});
  return fields;
}

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<SegmentCounting>(settings);
}

}  // namespace

const TaskEntry segment_counting_task = {
    "segment_counting", "occurrences of an item in a segment between two meta-tokens", 1, fields, make,
    list_variants};

}  // namespace copylab
