// bracket_copy: the drawn example, prompts taken apart, golden hashes.
#include "tasks/bracket_copy.h"

#include <cmath>
#include <map>

#include "tasks/fingerprint.h"
#include "tests/tasks/prompts/prompt_check.h"

using namespace copylab;
using namespace copylab::testing;

namespace {

std::unique_ptr<Task> bracket_copy(const Changes& changes) {
  return bracket_copy_task.make(task_settings(bracket_copy_task, changes));
}

}  // namespace

TEST_CASE("the drawn example of bracket_copy", "[bracket_copy]") {
  const auto task = bracket_copy({{"task.length", int64_t{17}}});
  check_example(*task, "w3 w8 [ _P_ w5 w1 w1 w9 _P_ ] w2 w7 ? =", "w5 w1 w1 w9");
  check_example(*task, "w3 _P_ w8 _P_ w4 [ w5 w1 w1 w9 ] w2 ? =", "w5 w1 w1 w9");
  check_example(*task, "[ w1 w2 w3 w4 ] w5 w6 w7 w8 w9 w1 ? =", "w1 w2 w3 w4");
}

TEST_CASE("a prompt of bracket_copy, taken apart", "[bracket_copy]") {
  const int64_t span = 3, length = 24, rows = 3000, room = length + 1 - 2 * span - 6;
  const auto task = bracket_copy({{"task.span", span}, {"task.length", length}, {"task.words", int64_t{50}}});
  CHECK(task->chance() == 0.02);
  CHECK(task->slices() == std::vector<std::string>{"place_1", "place_2_3"});
  const Batch b = task->batch(Split::train, 2, 0, rows);
  std::map<int64_t, int> starts;
  for (int64_t row = 0; row < rows; ++row) {
    const auto s = symbols_of(*task, b, row);
    const int64_t open = place_of(s, "["), close = place_of(s, "]"), equals = place_of(s, "=");
    ++starts[open];
    REQUIRE(close == open + span + 3);
    REQUIRE((s[open + 1] == "_P_" && s[close - 1] == "_P_" && s[equals - 1] == "?"));
    REQUIRE(equals + span == length);
    for (int64_t i = 0; i < span; ++i) {
      REQUIRE(s[equals + 1 + i] == s[open + 2 + i]);
      REQUIRE(b.slice[row * length + equals + i] == (i == 0 ? 0 : 1));
    }
    REQUIRE(std::count_if(s.begin(), s.end(), [](const std::string& x) { return x[0] == 'w'; }) ==
            room + 2 * span);
  }
  CHECK(starts.size() == static_cast<size_t>(room + 1));
  for (const auto& [start, count] : starts)
    CHECK(count == Approx(rows / (room + 1.0)).margin(6 * std::sqrt(rows / (room + 1.0))));
}

TEST_CASE("golden hashes of the first 256 sequences of bracket_copy", "[bracket_copy]") {
  // A changed hash means changed data: raise the task's version in its registry line.
  const auto hash = [](const Changes& changes, Split split) {
    return fingerprint(*bracket_copy(changes), split, 1);
  };
  CHECK(hash({}, Split::train) == 0xc61b607e2a185522);
  CHECK(hash({}, Split::test) == 0x69503d3549810f53);
  CHECK(hash({{"task.pause", std::string("wrong")}}, Split::test) == 0x15e763cd37473d19);
  CHECK(hash({{"task.pause", std::string("none")}, {"task.level", std::string("medium")}}, Split::test) ==
        0x8bd51ebc55e8841d);
}
