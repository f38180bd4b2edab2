// list_recall: the drawn example, prompts taken apart, where the item stands, golden hashes.
#include "tasks/list_recall.h"

#include <cmath>
#include <map>
#include <set>

#include "tasks/fingerprint.h"
#include "tests/tasks/prompts/prompt_check.h"

using namespace copylab;
using namespace copylab::testing;

namespace {

std::unique_ptr<Task> list_recall(const Changes& changes) {
  return list_recall_task.make(task_settings(list_recall_task, changes));
}

}  // namespace

TEST_CASE("the drawn example of list_recall", "[list_recall]") {
  const auto task = list_recall({{"task.length", int64_t{26}}});
  check_example(*task, "L 9 : w5 w1 w8 w2 ; w3 w6 L 4 : w7 w4 w1 w9 _P_ ; w2 ? L 4 1 _P_ =", "w7");
  // Another item, the other list, the meta-token at the wrong one and none at all.
  check_example(*task, "w3 L 9 : w5 w1 w8 w2 _P_ ; w6 L 4 : w7 w4 w1 w9 ; w2 ? L 4 4 _P_ =", "w9");
  check_example(*task, "w3 L 9 : w5 w1 w8 w2 ; w3 w6 w1 L 4 : w7 w4 w1 w9 ; w2 ? L 9 2 =", "w1");
}

TEST_CASE("tiny prompts of list_recall", "[list_recall]") {
  const auto task = list_recall({{"task.level", std::string("tiny")}, {"task.length", int64_t{19}}});
  check_example(*task, "L 9 : w5 w1 ; L 4 : w7 w4 _P_ ; ? L 4 2 _P_ =", "w4");
}

TEST_CASE("a prompt of list_recall, taken apart", "[list_recall]") {
  const int64_t lists = 3, items = 5, length = 50, rows = 2000;
  const auto task = list_recall(
      {{"task.lists", lists}, {"task.items", items}, {"task.length", length}, {"task.vocab", int64_t{100}}});
  CHECK(task->chance() == Approx(1.0 / 59));
  const Batch b = task->batch(Split::train, 2, 0, rows);
  std::map<int64_t, int> asked_list, asked_item;
  std::set<std::string> names;
  double filling_before = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto s = symbols_of(*task, b, row);
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < length; ++i)
      if (s[i] == "L" && s[i + 2] == ":") starts.push_back(i);
    REQUIRE(starts.size() == static_cast<size_t>(lists));
    filling_before += static_cast<double>(starts[0]) / rows;
    const int64_t question = place_of(s, "?");
    REQUIRE(s[question + 1] == "L");
    const int64_t item = std::stoi(s[question + 3]);
    REQUIRE((item >= 1 && item <= items));
    REQUIRE(s[question + 4] == "_P_");
    REQUIRE(s[question + 5] == "=");
    REQUIRE(question + 6 == length);
    std::set<std::string> of_row;
    for (int64_t i = 0; i < lists; ++i) {
      of_row.insert(s[starts[i] + 1]);
      names.insert(s[starts[i] + 1]);
      const bool asked = s[starts[i] + 1] == s[question + 2];
      REQUIRE((s[starts[i] + 3 + items] == "_P_") == asked);
      REQUIRE(s[starts[i] + 3 + items + asked] == ";");
      if (!asked) continue;
      ++asked_list[i];
      ++asked_item[item];
      const int64_t source = starts[i] + 2 + item;
      REQUIRE(s[source] == s[length]);
      const auto octave = static_cast<int32_t>(std::floor(std::log2(length - 1 - source)));
      REQUIRE(b.slice[row * length + length - 1] == octave);
    }
    REQUIRE(of_row.size() == static_cast<size_t>(lists));
  }
  CHECK(names.size() == 31);
  CHECK(names.count("0") == 0);
  // Any list, any item, and a quarter of the 16 words of filling before the first list.
  for (const auto& [list, count] : asked_list) CHECK(count == Approx(rows / 3.0).margin(130));
  for (const auto& [item, count] : asked_item) CHECK(count == Approx(rows / 5.0).margin(110));
  CHECK(filling_before == Approx((length + 1 - lists * (items + 4) - 8) / 4.0).epsilon(0.1));
}

TEST_CASE("golden hashes of the first 256 sequences of list_recall", "[list_recall]") {
  // A changed hash means changed data: raise the task's version in its registry line.
  const auto hash = [](const Changes& changes, Split split) {
    return fingerprint(*list_recall(changes), split, 1);
  };
  CHECK(hash({}, Split::train) == 0xae2566ef249d6b61);
  CHECK(hash({}, Split::test) == 0x807b2e88b85bd209);
  CHECK(hash({{"task.pause", std::string("wrong")}}, Split::test) == 0x366136b620d22476);
  CHECK(hash({{"task.pause", std::string("none")}, {"task.level", std::string("medium")}}, Split::test) ==
        0xa4932543504fc426);
}
