// parity: the drawn example, prompts taken apart, golden hashes.
#include "tasks/parity.h"

#include <cmath>
#include <map>

#include "tasks/fingerprint.h"
#include "tests/tasks/prompts/prompt_check.h"

using namespace copylab;
using namespace copylab::testing;

namespace {

std::unique_ptr<Task> parity(const Changes& changes) {
  return parity_task.make(task_settings(parity_task, changes));
}

}  // namespace

TEST_CASE("the drawn example of parity", "[parity]") {
  const auto task = parity({{"task.length", int64_t{14}}});
  check_example(*task, "w3 w8 1 0 1 1 _P_ ; 0 1 1 0 ? =", "1");
  check_example(*task, "w3 w8 1 0 1 0 ; 1 1 _P_ 1 0 ? =", "0");
  check_example(*task, "w1 w1 w1 w1 w1 w1 w1 0 1 0 0 ; ? =", "1");
}

TEST_CASE("a prompt of parity, taken apart", "[parity]") {
  const int64_t bits = 5, length = 30, rows = 4000, room = length + 1 - bits - 5;
  const auto task = parity({{"task.bits", bits}, {"task.length", length}});
  CHECK(task->chance() == 0.5);
  const Batch b = task->batch(Split::train, 2, 0, rows);
  std::map<int64_t, int> starts;
  double ones = 0, odd = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto s = symbols_of(*task, b, row);
    const int64_t end = place_of(s, ";"), start = end - 1 - bits;
    ++starts[start];
    REQUIRE(s[end - 1] == "_P_");
    int64_t sum = 0;
    for (int64_t i = start; i < end - 1; ++i) {
      REQUIRE((s[i] == "0" || s[i] == "1"));
      sum += s[i] == "1";
    }
    for (int64_t i = 0; i < start; ++i) REQUIRE(s[i][0] == 'w');
    for (int64_t i = end + 1; i < length - 2; ++i) REQUIRE((s[i] == "0" || s[i] == "1"));
    REQUIRE((s[length - 2] == "?" && s[length - 1] == "="));
    REQUIRE(s[length] == std::to_string(sum % 2));
    REQUIRE(b.slice[row * length + length - 1] ==
            static_cast<int32_t>(std::floor(std::log2(static_cast<double>(length - 1 - end)))));
    ones += static_cast<double>(sum) / static_cast<double>(rows * bits);
    odd += static_cast<double>(sum % 2) / rows;
  }
  CHECK(ones == Approx(0.5).margin(0.02));
  CHECK(odd == Approx(0.5).margin(0.05));
  CHECK(starts.size() == static_cast<size_t>(room + 1));
  for (const auto& [start, count] : starts)
    CHECK(count == Approx(rows / (room + 1.0)).margin(6 * std::sqrt(rows / (room + 1.0))));
}

TEST_CASE("golden hashes of the first 256 sequences of parity", "[parity]") {
  // A changed hash means changed data: raise the task's version in its registry line.
  const auto hash = [](const Changes& changes, Split split) {
    return fingerprint(*parity(changes), split, 1);
  };
  CHECK(hash({}, Split::train) == 0x3234b4b96b46ab9f);
  CHECK(hash({}, Split::test) == 0x34b11891ea072f4e);
  CHECK(hash({{"task.pause", std::string("wrong")}}, Split::test) == 0x6ae838bf1276bf27);
  CHECK(hash({{"task.pause", std::string("none")}, {"task.level", std::string("medium")}}, Split::test) ==
        0x947acd64e0692bc3);
}
