// Recall: pairs, questions and noise by hand, the power law of the slots, slices, golden hashes.
#include "tasks/recall.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "tasks/fingerprint.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using copylab::testing::message_of;

namespace {

std::unique_ptr<Task> recall(int64_t vocab, int64_t length, int64_t pairs, double power = 0.01) {
  return recall_task.make(task_settings(
      recall_task,
      {{"task.vocab", vocab}, {"task.length", length}, {"task.pairs", pairs}, {"task.power", power}}));
}

}  // namespace

TEST_CASE("each key is asked for once, and answered with its value", "[recall]") {
  const int64_t vocab = 40, length = 31, pairs = 6;
  const auto task = recall(vocab, length, pairs);
  const Batch b = task->batch(Split::train, 3, 2, 300);
  const std::vector<int32_t> answers = task->solve(b);
  for (int64_t row = 0; row < 300; ++row) {
    const int32_t *x = &b.tokens[row * length], *y = &b.targets[row * length], *s = &b.slice[row * length];
    std::map<int32_t, std::pair<int32_t, int64_t>> value;  // of each key, and the key's place
    for (int64_t i = 0; i < pairs; ++i) {
      REQUIRE((x[2 * i] >= 1 && x[2 * i] < 20));
      REQUIRE((x[2 * i + 1] >= 20 && x[2 * i + 1] < vocab));
      REQUIRE(value.emplace(x[2 * i], std::pair(x[2 * i + 1], 2 * i)).second);
    }
    std::set<int32_t> asked;
    for (int64_t t = 0; t < length; ++t) {
      const auto found = value.find(x[t]);
      if (t < 2 * pairs || found == value.end()) {
        REQUIRE(y[t] == -1);
        if (t >= 2 * pairs) REQUIRE(x[t] >= 20);
        continue;
      }
      REQUIRE(t % 2 == 0);
      REQUIRE(asked.insert(x[t]).second);
      REQUIRE(y[t] == found->second.first);
      REQUIRE(answers[row * length + t] == y[t]);
      const double distance = static_cast<double>(t - found->second.second);
      REQUIRE(s[t] == static_cast<int32_t>(std::floor(std::log2(distance))) - 1);
    }
    REQUIRE(asked.size() == pairs);
  }
  CHECK(task->slices() ==
        std::vector<std::string>{"distance_2_3", "distance_4_7", "distance_8_15", "distance_16_31"});
}

TEST_CASE("slots follow the power law, without replacement", "[recall]") {
  // Of slots with weights w: the first key takes s with w_s, the second takes s with sum over the first's r
  // of w_r · w_s / (1 - w_r).
  const int64_t slots = 4, rows = 40000;
  const double power = 0.3;
  std::vector<double> w(slots), first(slots, 0), second(slots, 0);
  for (int64_t s = 0; s < slots; ++s) w[s] = std::pow(s + 1.0, power - 1);
  double total = 0;
  for (const double x : w) total += x;
  for (double& x : w) x /= total;
  const Batch b = recall(100, 4 + 2 * slots, 2, power)->batch(Split::test, 5, 0, rows);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t s = 0; s < slots; ++s) {
      const int32_t* x = &b.tokens[row * b.length];
      if (x[4 + 2 * s] == x[0]) first[s] += 1.0 / rows;
      if (x[4 + 2 * s] == x[2]) second[s] += 1.0 / rows;
    }
  for (int64_t s = 0; s < slots; ++s) {
    double expected = 0;
    for (int64_t r = 0; r < slots; ++r)
      if (r != s) expected += w[r] * w[s] / (1 - w[r]);
    CHECK(first[s] == Approx(w[s]).margin(5 * std::sqrt(0.25 / rows)));
    CHECK(second[s] == Approx(expected).margin(5 * std::sqrt(0.25 / rows)));
  }
}

TEST_CASE("golden hashes of the first 256 sequences of recall", "[recall]") {
  struct Golden {
    int64_t vocab, length, pairs;
    Split split;
    uint64_t seed, hash;
  };
  // A changed hash means changed data: raise the task's version in its registry line.
  const Golden golden[] = {
      {8192, 64, 4, Split::train, 1, 0x0b55f949290b60b4},
      {8192, 64, 4, Split::test, 1, 0x43ce2533b2567a47},
      {8192, 128, 8, Split::train, 2, 0x7987100eb6e3c990},
      {8192, 512, 64, Split::train, 1, 0x0fc35836abd2d24a},
  };
  for (const Golden& g : golden) {
    INFO(g.length << " " << g.pairs << " " << name_of(g.split) << " " << g.seed);
    CHECK(fingerprint(*recall(g.vocab, g.length, g.pairs), g.split, g.seed) == g.hash);
  }
}

TEST_CASE("the drawn form of recall", "[recall]") {
  Batch b;
  b.rows = 1;
  b.length = 12;
  b.tokens = {7, 61, 22, 90, 22, 55, 71, 83, 7, 94, 58, 66};
  b.targets = {-1, -1, -1, -1, 90, -1, -1, -1, 61, -1, -1, -1};
  b.slice.assign(12, 0);
  CHECK(recall(100, 12, 2)->show(b, 0) ==
        "tokens   7 61 22 90 | 22 55 71 83  7 94 58 66\n"
        "targets  .  .  .  .   90  .  .  . 61  .  .  .\n");
}

TEST_CASE("settings of recall that do not fit are refused", "[recall]") {
  CHECK(message_of([] { recall(100, 14, 4); }) ==
        "[recall] task.length of at least 15 expected, for 4 pairs and as many slots of two: got 14");
  CHECK(message_of([] { recall(8, 64, 4); }) ==
        "[recall] task.vocab must hold 4 keys in its lower half: got 8");
  CHECK(recall(10, 15, 4)->batch(Split::train, 1, 0, 3).rows == 3);
}
