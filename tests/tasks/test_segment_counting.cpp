// segment_counting: the drawn example, prompts taken apart, counts with equal chance, golden hashes.
#include "tasks/segment_counting.h"

#include <map>
#include <set>

#include "core/error.h"
#include "tasks/fingerprint.h"
#include "tests/messages.h"
#include "tests/tasks/prompts/prompt_check.h"

using namespace copylab;
using namespace copylab::testing;

namespace {

std::unique_ptr<Task> segment_counting(const Changes& changes) {
  return segment_counting_task.make(task_settings(segment_counting_task, changes));
}

}  // namespace

TEST_CASE("the drawn example of segment_counting", "[segment_counting]") {
  const auto task = segment_counting({{"task.length", int64_t{26}}});
  check_example(*task, "L 1 : w5 w1 w1 w2 ; w3 L 2 : w5 [ _P_ w1 w9 _P_ ] w1 ; w4 ? # w1 =", "1");
  check_example(*task, "L 1 : [ _P_ w1 w1 _P_ ] w5 w2 ; w3 L 2 : w5 w1 w9 w1 ; w4 ? # w1 =", "2");
  check_example(*task, "w1 w1 w1 w1 L 1 : w5 [ w2 w2 ] w2 ; L 2 : w5 w1 w9 w1 ; ? # w1 =", "0");
}

TEST_CASE("tiny prompts of segment_counting count in a whole list", "[segment_counting]") {
  const auto task = segment_counting({{"task.level", std::string("tiny")}, {"task.length", int64_t{20}}});
  CHECK(task->chance() == Approx(1.0 / 3));
  check_example(*task, "L 1 : w5 w1 ; L 2 : [ _P_ w1 w1 _P_ ] ; ? # w1 =", "2");
}

TEST_CASE("a prompt of segment_counting, taken apart", "[segment_counting]") {
  const int64_t items = 6, segment = 3, length = 48, rows = 2000;
  const auto task = segment_counting({{"task.lists", int64_t{3}},
                                      {"task.items", items},
                                      {"task.segment", segment},
                                      {"task.length", length}});
  CHECK(task->chance() == 0.25);
  CHECK(task->slices() == std::vector<std::string>{"count_0", "count_1", "count_2", "count_3"});
  const Batch b = task->batch(Split::train, 2, 0, rows);
  std::map<std::string, int> counts, lists;
  std::map<int64_t, int> firsts;
  double outside = 0;  // share of the item asked for among items outside of the brackets
  for (int64_t row = 0; row < rows; ++row) {
    const auto s = symbols_of(*task, b, row);
    const int64_t open = place_of(s, "["), close = place_of(s, "]"), question = place_of(s, "?");
    REQUIRE(close == open + segment + 3);
    REQUIRE((s[open + 1] == "_P_" && s[close - 1] == "_P_"));
    const std::string item = s[question + 2];
    REQUIRE((s[question + 1] == "#" && s[question + 3] == "=" && question + 5 == length + 1));
    const auto count = std::count(s.begin() + open, s.begin() + close, item);
    REQUIRE(s[length] == std::to_string(count));
    REQUIRE(b.slice[row * length + length - 1] == count);
    ++counts[s[length]];
    std::set<std::string> kinds;
    int64_t list = open;
    while (s[list] != "L") --list;
    ++lists[s[list + 1]];
    ++firsts[open - list - 3];
    for (int64_t n = 1; n <= 3; ++n) {
      int64_t i = place_of(s, ":", place_of(s, std::to_string(n), place_of(s, "L"))) + 1;
      int64_t of_list = 0;
      for (; s[i] != ";"; ++i) {
        if (s[i] == "[" || s[i] == "]" || s[i] == "_P_") continue;
        ++of_list;
        kinds.insert(s[i]);
        if (i < open || i > close)
          outside += (s[i] == item) / static_cast<double>(rows * (3 * items - segment));
      }
      REQUIRE(of_list == items);
    }
    kinds.insert(item);
    REQUIRE(kinds.size() <= 4);
  }
  for (int64_t n = 0; n <= segment; ++n) CHECK(counts[std::to_string(n)] == Approx(rows / 4.0).margin(120));
  for (const char* n : {"1", "2", "3"}) CHECK(lists[n] == Approx(rows / 3.0).margin(130));
  CHECK(firsts.size() == 4);
  CHECK(outside == Approx(0.25).margin(0.02));
}

TEST_CASE("settings of segment_counting that do not fit are refused", "[segment_counting]") {
  CHECK(message_of([] {
          segment_counting({{"task.segment", int64_t{5}}});
        }) == "[segment_counting] task.segment of at most 4 expected, the items of a list: got 5");
  CHECK(message_of([] {
          segment_counting({{"task.words", int64_t{3}}});
        }) == "[segment_counting] task.words of at least 4 expected: got 3");
}

TEST_CASE("golden hashes of the first 256 sequences of segment_counting", "[segment_counting]") {
  // A changed hash means changed data: raise the task's version in its registry line.
  const auto hash = [](const Changes& changes, Split split) {
    return fingerprint(*segment_counting(changes), split, 1);
  };
  CHECK(hash({}, Split::train) == 0x99d9b5e8b3530bc8);
  CHECK(hash({}, Split::test) == 0x3b36fda562bdf600);
  CHECK(hash({{"task.pause", std::string("wrong")}}, Split::test) == 0x75e19f95ee4e2a30);
  CHECK(hash({{"task.pause", std::string("none")}, {"task.level", std::string("medium")}}, Split::test) ==
        0x29722269156ca2e4);
}
