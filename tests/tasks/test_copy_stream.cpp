// Copy stream: its grammar, probabilities and ceiling from the definition, and golden hashes.
#include "tasks/copy_stream.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "experiments/check/check_tasks.h"
#include "tasks/fingerprint.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using copylab::testing::message_of;

namespace {

std::unique_ptr<Task> copy_stream(int64_t vocab, int64_t length, double copy_rate, double rare_rate,
                                  int64_t phrases, int64_t phrase_length) {
  return copy_stream_task.make(task_settings(copy_stream_task, {{"task.vocab", vocab},
                                                                {"task.length", length},
                                                                {"task.copy_rate", copy_rate},
                                                                {"task.rare_rate", rare_rate},
                                                                {"task.phrases", phrases},
                                                                {"task.phrase_length", phrase_length}}));
}

// x_0..x_T of a row.
std::vector<int32_t> sequence(const Batch& b, int64_t row) {
  std::vector<int32_t> x(b.tokens.begin() + row * b.length, b.tokens.begin() + (row + 1) * b.length);
  x.push_back(b.targets[(row + 1) * b.length - 1]);
  return x;
}

enum : int32_t { kCopied, kNew, kRare };

}  // namespace

TEST_CASE("a phrase follows its cue, the same one whenever it comes again", "[copy_stream]") {
  const int64_t vocab = 64, length = 40, n = 3;
  const auto task = copy_stream(vocab, length, 0.5, 0.3, 2, n);
  const Batch b = task->batch(Split::train, 4, 1, 400);
  const std::vector<int32_t> answers = task->solve(b);
  int64_t copied = 0, cut = 0;
  for (int64_t row = 0; row < 400; ++row) {
    const std::vector<int32_t> x = sequence(b, row);
    std::map<int32_t, std::vector<int32_t>> phrases;
    for (int64_t t = 0; t < length; ++t) REQUIRE(b.targets[row * length + t] == x[t + 1]);
    const auto slice_at = [&](int64_t p) { return b.slice[row * length + p - 1]; };  // of target x_p
    const auto answer_at = [&](int64_t p) { return answers[row * length + p - 1]; };
    for (int64_t p = 0; p <= length;) {
      if (p > 0) REQUIRE(slice_at(p) == (x[p] >= 32 ? kRare : kNew));
      if (p > 0) REQUIRE(answer_at(p) == -1);
      if (x[p] >= 8) {
        ++p;
        continue;
      }
      const int64_t end = std::min(p + 1 + n, length + 1);
      const std::vector<int32_t> words(x.begin() + p + 1, x.begin() + end);
      cut += static_cast<int64_t>(words.size()) < n;
      const auto found = phrases.find(x[p]);
      const bool again = found != phrases.end();
      for (size_t i = 0; i < words.size(); ++i) {
        const int64_t q = p + 1 + static_cast<int64_t>(i);
        REQUIRE(words[i] >= 8);
        if (again) REQUIRE(words[i] == found->second[i]);
        REQUIRE(slice_at(q) == (again ? kCopied : words[i] >= 32 ? kRare : kNew));
        REQUIRE(answer_at(q) == (again ? words[i] : -1));
        copied += again;
      }
      if (!again) phrases[x[p]] = words;
      p = end;
    }
    REQUIRE(phrases.size() <= 2);
  }
  CHECK(copied > 400 * length / 5);
  CHECK(cut > 0);
  CHECK(task->slices() == std::vector<std::string>{"copied", "new", "rare"});
}

TEST_CASE("without copies, words are drawn alike at every position: Zipf, and a tail of rare ones",
          "[copy_stream]") {
  const int64_t vocab = 64, rows = 20000;
  const auto task = copy_stream(vocab, 8, 0.0, 0.25, 2, 3);
  const Batch b = task->batch(Split::test, 2, 0, rows);
  std::vector<double> expected(vocab, 0);
  double sum = 0;
  for (int64_t r = 1; r <= 24; ++r) sum += 1.0 / static_cast<double>(r);
  for (int64_t r = 1; r <= 24; ++r) expected[7 + r] = 0.75 / static_cast<double>(r) / sum;
  for (int64_t v = 32; v < 64; ++v) expected[v] = 0.25 / 32;
  for (const int64_t t : {0, 7}) {
    std::vector<double> share(vocab, 0);
    for (int64_t row = 0; row < rows; ++row) share[b.targets[row * 8 + t]] += 1.0 / rows;
    for (int64_t v = 0; v < vocab; ++v)
      CHECK(share[v] == Approx(expected[v]).margin(5 * std::sqrt(std::max(1e-4, expected[v]) / rows)));
  }
  CHECK(std::count(b.slice.begin(), b.slice.end(), kCopied) == 0);
  CHECK(task->ceiling() == Approx(0.75 / sum).epsilon(1e-12));
  CHECK(task->guess() == Approx(task->ceiling()).epsilon(1e-12));
}

TEST_CASE("in the long run the chosen share of words stands in phrases", "[copy_stream]") {
  for (const double rate : {0.2, 0.5, 0.8}) {
    const int64_t length = 4000;
    const auto task = copy_stream(256, length, rate, 0.1, 4, 8);
    const Batch b = task->batch(Split::train, 1, 0, 20);
    const double share = static_cast<double>(std::count(b.slice.begin(), b.slice.end(), kCopied)) /
                         static_cast<double>(20 * length);
    CHECK(share == Approx(rate).margin(0.03));
    // Its exact expectation counts first showings out.
    const double expected = task->budget(1)[1].second;
    CHECK(expected < rate);
    CHECK(share == Approx(expected).margin(0.02));
    CHECK(task->budget(7)[0].second == Approx(7 * expected * static_cast<double>(length)));
  }
}

TEST_CASE("the ceiling of two positions by hand", "[copy_stream]") {
  // One phrase of one word, one cue of eight, u = c / (1 - c) = 1/2; all words are rare ones of 32. T = 2.
  const auto task = copy_stream(64, 2, 1.0 / 3.0, 1.0, 1, 1);
  // x_0 is a cue (1/2): x_1 is its new word, guessed with 1/32; x_2 is outside, the cue was seen: 1/2.
  // x_0 is a word (1/2): x_1 is outside, the cue unseen: 1/2 · 1/8. If x_1 is a cue, x_2 is a new word, 1/32;
  // if it is a word, x_2 is outside, 1/16.
  const double expected = 0.5 * (1.0 / 32 + 0.5) + 0.5 * (1.0 / 16 + 0.5 / 32 + 0.5 / 16);
  CHECK(task->ceiling() == Approx(expected / 2).epsilon(1e-12));
  CHECK(check_task(*task).violation.empty());
}

TEST_CASE("golden hashes of the first 256 sequences of the copy stream", "[copy_stream]") {
  struct Golden {
    double copy_rate, rare_rate;
    Split split;
    uint64_t seed, hash;
  };
  // A changed hash means changed data: raise the task's version in its registry line.
  const Golden golden[] = {
      {0.4, 0.1, Split::train, 1, 0xf366c6143a041995}, {0.4, 0.1, Split::test, 1, 0xe871e1725c96e8ea},
      {0.0, 0.1, Split::test, 1, 0xffba476455dfb787},  {0.8, 0.5, Split::test, 1, 0x3460ab38af1590a7},
      {0.8, 0.5, Split::train, 2, 0x46850a146d6a323f},
  };
  for (const Golden& g : golden) {
    INFO(g.copy_rate << " " << g.rare_rate << " " << name_of(g.split) << " " << g.seed);
    CHECK(fingerprint(*copy_stream(1024, 128, g.copy_rate, g.rare_rate, 4, 8), g.split, g.seed) == g.hash);
  }
}

TEST_CASE("the drawn form of the copy stream", "[copy_stream]") {
  Batch b;
  b.rows = 1;
  b.length = 8;
  b.tokens = {11, 3, 21, 8, 19, 3, 21, 8};
  b.targets = {3, 21, 8, 19, 3, 21, 8, 19};
  b.slice = {kNew, kNew, kNew, kNew, kNew, kCopied, kCopied, kCopied};
  CHECK(copy_stream(64, 8, 0.5, 0.1, 2, 3)->show(b, 0) ==
        "tokens  11  3 21  8 19  3 21  8\n"
        "targets  3 21  8 19  3 21  8 19\n"
        "         c           c  ^  ^  ^\n");
}

TEST_CASE("settings of the copy stream that do not fit are refused", "[copy_stream]") {
  CHECK(message_of([] { copy_stream(64, 8, 0.9, 0.1, 2, 8); }) ==
        "[copy_stream] task.copy_rate of at most 0.889 expected for phrases of 8 words: got 0.9");
  CHECK(message_of([] { copy_stream(64, 8, 0.5, 0.1, 9, 8); }) ==
        "[copy_stream] task.vocab of at least 72 expected, for 9 cues: got 64");
}
