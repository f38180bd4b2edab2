// Windows: every target once whatever the shift, no window empty, and orders that are permutations.
#include "tasks/text/windows.h"

#include <set>

#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using namespace copylab::text;

TEST_CASE("windows hold each target once, inside its document", "[text]") {
  // Documents of 0, 1, 2, 6, 17 and 1000 tokens, the last long enough for a window more.
  const std::vector<int64_t> starts = {0, 0, 1, 3, 9, 26, 1026};
  const std::set<int64_t> without_context = {0, 1, 3, 9, 26};
  for (const int64_t length : {1, 2, 3, 5, 7, 16, 2000})
    for (const bool shifting : {false, true}) {
      const Windows windows(starts, length, shifting);
      CHECK(windows.targets() == 1 + 5 + 16 + 999);
      for (uint64_t key = 0; key < 20; ++key) {
        const Random shift(key, "test.shift");
        std::vector<int> times(1026, 0);
        for (int64_t i = 0; i < windows.size(); ++i) {
          const Windows::Window w = windows.at(i, shift);
          REQUIRE((w.count >= 1 && w.count <= length));
          for (int64_t target = w.first + 1; target <= w.first + w.count; ++target) ++times[target];
        }
        for (int64_t target = 0; target < 1026; ++target)
          REQUIRE(times[target] == (without_context.count(target) ? 0 : 1));
      }
    }
}

TEST_CASE("the grid of a long document shifts by at least half a window", "[text]") {
  for (const int64_t tokens : {1281, 1280, 1290, 1271, 1275, 1276, 1277}) {
    const Windows fixed({0, tokens}, 20, false), shifting({0, tokens}, 20, true);
    std::set<int64_t> first;
    for (uint64_t key = 0; key < 400; ++key) {
      first.insert(shifting.at(0, Random(key, "test.shift")).count);
      CHECK(fixed.at(0, Random(key, "test.shift")).count == 20);
    }
    CHECK(first.size() >= 10);
    CHECK(shifting.size() <= fixed.size() + 1);
  }
}

TEST_CASE("an order is a permutation that depends on its key", "[text]") {
  for (const int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 64, 65, 1000}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < n; ++i) seen.insert(permuted(Random(7, "test.order"), i, n));
    CHECK(static_cast<int64_t>(seen.size()) == n);
    CHECK((*seen.begin() == 0 && *seen.rbegin() == n - 1));
  }
  // Where 0 goes among 10, over many keys: uniform within five standard deviations.
  std::vector<int> counts(10, 0);
  int fixed_points = 0;
  for (uint64_t epoch = 0; epoch < 10000; ++epoch) {
    const Random key(1, "test.order", epoch);
    ++counts[permuted(key, 0, 10)];
    fixed_points += permuted(key, 3, 10) == 3;
  }
  for (const int count : counts) CHECK(std::abs(count - 1000) < 150);
  CHECK(std::abs(fixed_points - 1000) < 150);
}
