// SpamLang: its three forms by hand, golden hashes, the solver, the exact ceiling, budgets, and the
// self-check.
#include "tasks/spamlang.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>

#include "core/error.h"
#include "experiments/check/check_tasks.h"
#include "tasks/fingerprint.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using copylab::testing::message_of;

namespace {

std::unique_ptr<Task> spamlang(int64_t vocab, int64_t length, int64_t period = 1, int64_t interleave = 1) {
  return spamlang_task.make(task_settings(spamlang_task, {{"task.vocab", vocab},
                                                          {"task.length", length},
                                                          {"task.period", period},
                                                          {"task.interleave", interleave}}));
}

}  // namespace

TEST_CASE("plain SpamLang repeats one symbol", "[spamlang]") {
  const auto task = spamlang(1000, 7);
  const Batch b = task->batch(Split::train, 3, 5, 20);
  REQUIRE(b.tokens.size() == 140);
  int differing_rows = 0;
  for (int64_t row = 0; row < 20; ++row) {
    for (int64_t t = 0; t < 7; ++t) {
      CHECK(b.tokens[row * 7 + t] == b.tokens[row * 7]);
      CHECK(b.targets[row * 7 + t] == b.tokens[row * 7]);
      CHECK(b.slice[row * 7 + t] == (t == 0 ? 1 : 2));
    }
    differing_rows += b.tokens[row * 7] != b.tokens[0];
  }
  CHECK(differing_rows >= 15);
  CHECK(task->ceiling() == 1.0);
  CHECK(task->chance() == 0.001);
}

TEST_CASE("period repeats a block", "[spamlang]") {
  const auto task = spamlang(1000, 10, 4);
  const Batch b = task->batch(Split::test, 1, 0, 30);
  for (int64_t row = 0; row < 30; ++row) {
    const int32_t *x = &b.tokens[row * 10], *y = &b.targets[row * 10], *s = &b.slice[row * 10];
    for (int64_t t = 0; t + 1 < 10; ++t) CHECK(y[t] == x[t + 1]);
    for (int64_t t = 3; t < 10; ++t) CHECK(y[t] == x[t - 3]);
    CHECK(std::vector<int32_t>(s, s + 10) == std::vector<int32_t>{0, 0, 0, 1, 1, 1, 1, 2, 2, 2});
  }
  CHECK(task->ceiling() == Approx((7 + 3 / 1000.0) / 10).epsilon(1e-14));
}

TEST_CASE("interleave announces each symbol by the marker of its stream", "[spamlang]") {
  const int64_t k = 3, length = 41;
  const auto task = spamlang(50, length, 1, k);
  const Batch b = task->batch(Split::valid, 1, 2, 200);
  std::vector<int64_t> used(k, 0);
  for (int64_t row = 0; row < 200; ++row) {
    const int32_t *x = &b.tokens[row * length], *y = &b.targets[row * length], *s = &b.slice[row * length];
    std::vector<int32_t> symbol(k, -1), shown(k, 0);
    for (int64_t t = 0; t < length; ++t) {
      if (t % 2 == 1) {
        REQUIRE(x[t] == y[t - 1]);
        REQUIRE(y[t] == -1);
        continue;
      }
      REQUIRE(x[t] < k);
      REQUIRE(y[t] >= k);
      REQUIRE(y[t] < 50);
      REQUIRE((symbol[x[t]] == -1 || symbol[x[t]] == y[t]));
      symbol[x[t]] = y[t];
      REQUIRE(s[t] == std::min(2, shown[x[t]]++));
      ++used[x[t]];
    }
  }
  for (const int64_t n : used) CHECK(n == Approx(200 * 21 / 3.0).margin(5 * std::sqrt(200 * 21 * 2 / 9.0)));
}

TEST_CASE("the ceiling of interleave is the exact expectation", "[spamlang]") {
  // All 2^4 marker sequences of four pairs over two streams, 8 symbols: unknowable are the first showings.
  double first_showings = 0;
  for (int bits = 0; bits < 16; ++bits) first_showings += (bits == 0 || bits == 15 ? 1 : 2) / 16.0;
  const double expected = (4 - first_showings + first_showings / 8) / 4;
  CHECK(spamlang(10, 7, 1, 2)->ceiling() == Approx(expected).epsilon(1e-14));
  CHECK(spamlang(10, 8, 1, 2)->ceiling() == Approx(expected).epsilon(1e-14));
}

TEST_CASE("the solver reads only the past and is exact on everything that was shown", "[spamlang]") {
  for (const auto& task :
       {spamlang(16, 33), spamlang(16, 33, 5), spamlang(16, 33, 33), spamlang(16, 33, 1, 4)}) {
    Batch b = task->batch(Split::test, 9, 0, 64);
    const std::vector<int32_t> answers = task->solve(b);
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool known = b.targets[i] >= 0 && b.slice[i] > 0;
      REQUIRE(answers[i] == (known ? b.targets[i] : -1));
    }
    // Whatever comes after position 20 (and the targets, everywhere) must not matter up to it.
    std::fill(b.targets.begin(), b.targets.end(), 0);
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t t = 21; t < 33; ++t) b.tokens[row * 33 + t] = 0;
    const std::vector<int32_t> again = task->solve(b);
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t t = 0; t <= 20; ++t) REQUIRE(again[row * 33 + t] == answers[row * 33 + t]);
  }
}

TEST_CASE("a sequence does not depend on the batch size", "[spamlang]") {
  for (const auto& task : {spamlang(300, 12), spamlang(300, 12, 3), spamlang(300, 12, 1, 2)}) {
    const Batch all = task->batch(Split::train, 4, 1, 6), part = task->batch(Split::train, 4, 4, 2);
    CHECK(std::equal(part.tokens.begin(), part.tokens.end(), all.tokens.begin() + 2 * 12));
    CHECK(std::equal(part.targets.begin(), part.targets.end(), all.targets.begin() + 2 * 12));
  }
}

TEST_CASE("symbols are uniform and splits are independent", "[spamlang]") {
  const int64_t vocab = 32, rows = 32000;
  const auto task = spamlang(vocab, 1);
  const Batch train = task->batch(Split::train, 1, 0, rows), test = task->batch(Split::test, 1, 0, rows);
  std::vector<double> single(vocab, 0), pair(vocab * vocab, 0);
  for (int64_t i = 0; i < rows; ++i) {
    single[train.tokens[i]] += 1;
    pair[train.tokens[i] * vocab + test.tokens[i]] += 1;
  }
  const auto chi2 = [&](const std::vector<double>& counts) {
    const double expected = static_cast<double>(rows) / counts.size();
    double sum = 0;
    for (const double n : counts) sum += (n - expected) * (n - expected) / expected;
    return sum;
  };
  // Mean df, variance 2 df; five standard deviations.
  CHECK(chi2(single) < 31 + 5 * std::sqrt(2 * 31.0));
  CHECK(chi2(pair) < 1023 + 5 * std::sqrt(2 * 1023.0));
}

TEST_CASE("budgets count independent draws apart from positions", "[spamlang]") {
  // The paper's budget: 41 M positions at V = 131072 are 313 positions, but 4.9 sequences per symbol.
  const auto plain = spamlang(131072, 64)->budget(640625);
  CHECK(plain[0].first == "sequences_per_symbol");
  CHECK(plain[0].second == Approx(4.8876).epsilon(1e-4));
  CHECK(plain[1].first == "positions_per_symbol");
  CHECK(plain[1].second == Approx(312.8).epsilon(1e-3));
  CHECK(spamlang(100, 64, 4)->budget(50)[0].second == Approx(2.0));
  CHECK(spamlang(104, 64, 1, 4)->budget(50)[1].second == Approx(16.0));
}

TEST_CASE("golden hashes of the first 256 sequences", "[spamlang]") {
  struct Golden {
    int64_t vocab, length, period, interleave;
    Split split;
    uint64_t seed, hash;
  };
  // A changed hash means changed data: raise the task's version in its registry line.
  const Golden golden[] = {
      {1024, 64, 1, 1, Split::train, 1, 0x3e949a1ffa0b1b25},
      {1024, 64, 1, 1, Split::valid, 1, 0x810a64ec04d6cc25},
      {1024, 64, 1, 1, Split::test, 1, 0x460832eefd325625},
      {1024, 64, 1, 1, Split::train, 2, 0xd306ecdafa8df625},
      {131072, 1, 1, 1, Split::train, 1, 0xbdad1bc06e593149},
      {1024, 64, 8, 1, Split::train, 1, 0xc052e08f26ebe825},
      {1024, 64, 8, 1, Split::test, 1, 0xfde58b8625cca485},
      {1024, 64, 1, 4, Split::train, 1, 0x91fe3a4e37dc6ab1},
      {1024, 64, 1, 4, Split::test, 1, 0x2d0f487493a57c38},
  };
  for (const Golden& g : golden) {
    const auto task = spamlang(g.vocab, g.length, g.period, g.interleave);
    INFO(g.vocab << " " << g.length << " " << g.period << " " << g.interleave << " " << name_of(g.split)
                 << " " << g.seed);
    CHECK(fingerprint(*task, g.split, g.seed) == g.hash);
  }
}

TEST_CASE("the drawn form marks labels that nothing determines", "[spamlang]") {
  Batch b;
  b.rows = 1;
  b.length = 4;
  b.tokens = {1, 7, 0, 9};
  b.targets = {7, -1, 9, -1};
  b.slice = {0, 0, 0, 0};
  CHECK(spamlang(10, 4, 1, 2)->show(b, 0) ==
        "tokens  #1  7 #0  9\n"
        "targets  7  .  9  .\n"
        "         ?     ?\n");
}

TEST_CASE("settings that contradict each other are refused", "[spamlang]") {
  CHECK(message_of([] { spamlang(10, 4, 5); }) ==
        "[spamlang] task.period must not exceed task.length: got 5, 4");
  CHECK(message_of([] { spamlang(10, 8, 2, 2); }) ==
        "[spamlang] task.period and task.interleave exclude each other: got 2, 2");
  CHECK(message_of([] { spamlang(4, 8, 1, 4); }) ==
        "[spamlang] task.interleave must leave symbols: got 4 markers of 4 ids");
  CHECK(message_of([] { find_task("spamlnag"); }) ==
        "[task.name] a registered task expected: got 'spamlnag'; did you mean 'spamlang'?");
}

namespace {

// SpamLang with one fault of choice, to see the self-check go red.
struct Faulty : Task {
  std::unique_ptr<Task> good = spamlang(64, 16, 4);
  enum class Fault {
    none,
    solver,
    ceiling,
    impure,
    shared_stream,
    one_batch,
    range,
    drift,
    no_ceiling,
    text
  } fault;
  mutable int calls = 0;

  explicit Faulty(Fault f) : fault(f) {}
  int64_t vocab() const override { return 64; }
  int64_t length() const override { return 16; }
  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override {
    if (fault == Fault::one_batch) index = 0;
    if (fault == Fault::shared_stream) split = Split::train;
    if (fault == Fault::impure) index += ++calls;
    Batch b = good->batch(split, seed, index, rows);
    if (fault == Fault::range) b.targets[3] = 64;
    if (fault == Fault::drift && split == Split::test)
      for (int32_t& y : b.targets) y /= 2;
    return b;
  }
  std::vector<int32_t> solve(const Batch& b) const override {
    std::vector<int32_t> answers = good->solve(b);
    if (fault == Fault::solver) answers[100] = (answers[100] + 1) % 64;
    if (fault == Fault::drift)  // a solver that keeps its score, so that only the labels give it away
      for (size_t i = 0; i < answers.size(); ++i) answers[i] = answers[i] < 0 ? -1 : b.targets[i];
    return answers;
  }
  double ceiling() const override {
    return fault == Fault::no_ceiling ? std::nan("")
                                      : good->ceiling() - (fault == Fault::ceiling ? 0.01 : 0.0);
  }
  bool generated() const override { return fault != Fault::text; }
  double chance() const override { return good->chance(); }
  std::vector<std::string> slices() const override { return good->slices(); }
  std::string show(const Batch& b, int64_t row) const override { return good->show(b, row); }
};

}  // namespace

TEST_CASE("check tasks passes every registered task and names each fault", "[check]") {
  std::ostringstream table;
  CHECK(check_tasks(table) == 0);
  CHECK(table.str().find("VIOLATION") == std::string::npos);
  for (const TaskEntry& entry : task_registry()) CHECK(table.str().find(entry.name) != std::string::npos);

  using Fault = Faulty::Fault;
  const auto violation = [](Fault fault) { return check_task(Faulty(fault)).violation; };
  CHECK(violation(Fault::none) == "");
  CHECK(violation(Fault::solver) == "solver is wrong where it claims to know");
  CHECK(violation(Fault::ceiling) == "solver and ceiling differ");
  CHECK(violation(Fault::impure) == "batch is not a pure function");
  CHECK(violation(Fault::shared_stream) == "splits share a random stream");
  CHECK(violation(Fault::one_batch) == "batch ignores index or seed");
  CHECK(violation(Fault::range) == "target out of range");
  CHECK(violation(Fault::drift) == "train and test labels differ in distribution");
  CHECK(violation(Fault::no_ceiling) == "the ceiling is no accuracy");
  CHECK(violation(Fault::text) == "a text has no solver and no ceiling");
}
