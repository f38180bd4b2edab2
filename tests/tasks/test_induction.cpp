// Induction: its forms by hand, the solver, the exact ceiling, draws without replacement, golden hashes.
#include "tasks/induction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "tasks/distinct.h"
#include "tasks/fingerprint.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using copylab::testing::message_of;

namespace {

struct Form {
  int64_t vocab = 100, block = 4, block_min = 0, copies = 2, gap = 0;
  std::string labels = "all";
};

std::unique_ptr<Task> induction(const Form& f) {
  return induction_task.make(task_settings(induction_task, {{"task.vocab", f.vocab},
                                                            {"task.block", f.block},
                                                            {"task.block_min", f.block_min},
                                                            {"task.copies", f.copies},
                                                            {"task.gap", f.gap},
                                                            {"task.labels", f.labels}}));
}

using Row = std::vector<int32_t>;
Row row_of(const std::vector<int32_t>& values, int64_t row, int64_t length) {
  return {values.begin() + row * length, values.begin() + (row + 1) * length};
}

}  // namespace

TEST_CASE("draw_distinct draws every ordered choice alike", "[induction]") {
  // 3 of 4 ids from 10 on: 24 ordered choices.
  std::map<Row, double> counts;
  const int n = 24000;
  for (int i = 0; i < n; ++i) {
    const Row drawn = draw_distinct(Random(7, "test", i), 5, 3, 10, 4);
    REQUIRE(std::set<int32_t>(drawn.begin(), drawn.end()).size() == 3);
    REQUIRE(*std::min_element(drawn.begin(), drawn.end()) >= 10);
    REQUIRE(*std::max_element(drawn.begin(), drawn.end()) <= 13);
    counts[drawn] += 1;
  }
  REQUIRE(counts.size() == 24);
  double chi2 = 0;
  for (const auto& [drawn, count] : counts) chi2 += (count - n / 24.0) * (count - n / 24.0) / (n / 24.0);
  CHECK(chi2 < 23 + 5 * std::sqrt(2 * 23.0));
  const Row all = draw_distinct(Random(1, "test"), 0, 6, 0, 6);
  CHECK(std::set<int32_t>(all.begin(), all.end()).size() == 6);
  CHECK(message_of([] { draw_distinct(Random(1, "test"), 0, 7, 0, 6); }) ==
        "[draw_distinct] no more than 6 different ids expected: got 7");
}

TEST_CASE("a fixed block is shown again", "[induction]") {
  const auto task = induction({.vocab = 50, .block = 4});
  REQUIRE(task->length() == 7);
  const Batch b = task->batch(Split::train, 3, 5, 40);
  std::set<Row> blocks;
  for (int64_t row = 0; row < 40; ++row) {
    const Row x = row_of(b.tokens, row, 7), y = row_of(b.targets, row, 7);
    CHECK(std::set<int32_t>(x.begin(), x.begin() + 4).size() == 4);
    for (int64_t t = 0; t < 7; ++t) {
      if (t < 6) CHECK(y[t] == x[t + 1]);
      if (t >= 3) CHECK(y[t] == x[t - 3]);
    }
    CHECK(row_of(b.slice, row, 7) == Row{0, 0, 0, 1, 2, 2, 2});
    blocks.insert(Row(x.begin(), x.begin() + 4));
  }
  CHECK(blocks.size() == 40);
}

TEST_CASE("a block of any length and its copy lie anywhere between noise", "[induction]") {
  const auto task = induction({.vocab = 90, .block = 9, .block_min = 6});
  const int64_t length = task->length();
  REQUIRE(length == 17);
  const Batch b = task->batch(Split::test, 1, 0, 400);
  std::map<int64_t, int> lengths;
  std::map<int64_t, int> places;  // of the shortest block's noise behind
  for (int64_t row = 0; row < 400; ++row) {
    const Row x = row_of(b.tokens, row, length), y = row_of(b.targets, row, length),
              s = row_of(b.slice, row, length);
    // The second copy begins at the first position without label; the noise behind it has none either.
    const int64_t second = std::find(y.begin(), y.end(), -1) - y.begin() + 1;
    const int64_t behind = std::count(y.begin(), y.end(), -1) - 1, end = 18 - behind, block = end - second;
    ++lengths[block];
    if (block == 6) ++places[behind];
    Row different(x.begin(), x.begin() + second);
    if (behind > 0) different.insert(different.end(), x.begin() + end, x.end());
    CHECK(std::set<int32_t>(different.begin(), different.end()).size() == different.size());
    for (int64_t t = second; t < std::min(end, length); ++t) CHECK(x[t] == x[t - block]);
    for (int64_t t = 0; t < length; ++t) {
      CHECK(s[t] == (t + 1 < second || t + 1 >= end ? 0 : t + 1 == second ? 1 : 2));
      if (y[t] >= 0 && t + 1 < length) CHECK(y[t] == x[t + 1]);
    }
  }
  REQUIRE(lengths.size() == 4);
  for (const auto& [block, count] : lengths) {
    CHECK((block >= 6 && block <= 9));
    CHECK(count == Approx(100).margin(5 * std::sqrt(400 * 0.25 * 0.75)));
  }
  REQUIRE(places.size() == 7);  // of six tokens of noise, 0 to 6 lie behind
}

TEST_CASE("noise between copies, labels of copies alone, and more copies", "[induction]") {
  const Batch gap = induction({.block = 3, .gap = 2, .labels = "copies"})->batch(Split::valid, 1, 0, 10);
  REQUIRE(gap.length == 7);
  for (int64_t row = 0; row < 10; ++row) {
    const Row x = row_of(gap.tokens, row, 7), y = row_of(gap.targets, row, 7);
    CHECK(std::set<int32_t>(x.begin(), x.begin() + 5).size() == 5);
    CHECK(y == Row{-1, -1, -1, -1, x[0], x[1], x[2]});
    CHECK(Row{x[5], x[6]} == Row{x[0], x[1]});
    CHECK(row_of(gap.slice, row, 7) == Row{0, 0, 0, 0, 1, 2, 2});
  }
  const Batch more = induction({.block = 2, .copies = 4})->batch(Split::valid, 1, 0, 10);
  for (int64_t row = 0; row < 10; ++row) {
    const Row x = row_of(more.tokens, row, 7);
    CHECK(x == Row{x[0], x[1], x[0], x[1], x[0], x[1], x[0]});
    CHECK(row_of(more.slice, row, 7) == Row{0, 1, 2, 1, 2, 1, 2});
  }
}

TEST_CASE("the solver reads only the past and knows what can be known", "[induction]") {
  for (const Form& form :
       {Form{.block = 8}, Form{.block = 8, .gap = 3}, Form{.block = 8, .block_min = 3},
        Form{.block = 8, .block_min = 3, .gap = 3}, Form{.block = 5, .block_min = 3, .copies = 4},
        Form{.block = 6, .copies = 3, .labels = "copies"}}) {
    const auto task = induction(form);
    const int64_t length = task->length();
    Batch b = task->batch(Split::test, 9, 0, 64);
    const std::vector<int32_t> answers = task->solve(b);
    for (size_t i = 0; i < answers.size(); ++i)
      if (b.targets[i] >= 0) REQUIRE(answers[i] == (b.slice[i] > 0 ? b.targets[i] : -1));
    std::fill(b.targets.begin(), b.targets.end(), 0);
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t t = 8; t < length; ++t) b.tokens[row * length + t] = 0;
    const std::vector<int32_t> again = task->solve(b);
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t t = 0; t < 8; ++t) REQUIRE(again[row * length + t] == answers[row * length + t]);
  }
}

TEST_CASE("the ceiling counts guesses among the tokens not shown yet", "[induction]") {
  // Two tokens, then both again: one guess of two unknown of V - 1, then two known.
  CHECK(induction({.vocab = 10, .block = 2})->ceiling() == Approx((1 / 9.0 + 2) / 3).epsilon(1e-14));
  // Blocks of 2 or 3 in six tokens: 2 has two tokens of noise, of which none, one or both lie behind.
  const double three = 1 / 9.0 + 1 / 8.0 + 2;
  const double two = 1 / 9.0 + (2 * (1 / 8.0) + 1 / 7.0) / 3 + 1;
  CHECK(induction({.vocab = 10, .block = 3, .block_min = 2})->ceiling() ==
        Approx((three + two) / 2 / ((4.0 + 3.0) / 2)).epsilon(1e-14));
  CHECK(induction({.block_min = 2, .labels = "copies"})->ceiling() == 1.0);
}

TEST_CASE("golden hashes of the first 256 sequences of induction", "[induction]") {
  struct Golden {
    Form form;
    Split split;
    uint64_t seed, hash;
  };
  // A changed hash means changed data: raise the task's version in its registry line.
  const Golden golden[] = {
      {{.vocab = 512, .block = 32}, Split::train, 1, 0xdfb5836e60459d92},
      {{.vocab = 512, .block = 32}, Split::test, 1, 0x6a5367e0b936ee4c},
      {{.vocab = 512, .block = 32, .block_min = 8}, Split::train, 2, 0x7d5ef5f1c7cd6da0},
      {{.vocab = 512, .block = 32, .gap = 5, .labels = "copies"}, Split::train, 1, 0x2596199049b9e25c},
  };
  for (const Golden& g : golden) {
    INFO(g.form.block_min << " " << g.form.gap << " " << name_of(g.split) << " " << g.seed);
    CHECK(fingerprint(*induction(g.form), g.split, g.seed) == g.hash);
  }
}

TEST_CASE("the drawn form of induction", "[induction]") {
  Batch b;
  b.rows = 1;
  b.length = 7;
  b.tokens = {50, 7, 41, 3, 7, 41, 3};
  b.targets = {7, 41, 3, -1, 41, 3, -1};
  b.slice = {0, 0, 0, 1, 2, 2, 0};
  CHECK(induction({.vocab = 60, .block_min = 3})->show(b, 0) ==
        "tokens  50  7 41  3  7 41  3\n"
        "targets  7 41  3  . 41  3  .\n"
        "         ?  ?  ?     =  =   \n");
}

TEST_CASE("settings of induction that contradict each other are refused", "[induction]") {
  CHECK(message_of([] { induction({.block = 4, .block_min = 5}); }) ==
        "[induction] task.block_min must not exceed task.block: got 5, 4");
  CHECK(message_of([] { induction({.copies = 3, .gap = 1}); }) ==
        "[induction] task.gap needs task.copies = 2: got gap 1, 3 copies");
  CHECK(message_of([] { induction({.vocab = 5, .block = 4, .block_min = 2}); }) ==
        "[induction] task.vocab must hold the 6 different tokens of a sequence: got 5");
}
