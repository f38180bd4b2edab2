// Lanes: stretches by hand, every target once, turned epochs, and batches of the text task read as streams.
#include "tasks/text/lanes.h"

#include <algorithm>
#include <map>
#include <set>

#include "tasks/text/text.h"
#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::contains;
using copylab::testing::message_of;
using copylab::testing::TemporaryFolder;

namespace {

using Changes = std::vector<std::pair<std::string, Value>>;
using Ids = std::vector<int32_t>;

// A text of one document whose words are numbers, w0 w1 … w(n-1): with their counts equal, ids follow the
// order.
std::filesystem::path numbers(const TemporaryFolder& folder, int64_t n) {
  std::string text;
  for (int64_t i = 0; i < n; ++i) text += "w" + std::to_string(i) + " ";
  for (const char* split : {"train", "valid", "test"})
    folder.write(std::string("text/") + split + ".txt", text);
  return folder / "text";
}

std::unique_ptr<Task> streams(const std::filesystem::path& path, int64_t lanes, int64_t length,
                              Changes more = {}) {
  more.push_back({"task.path", path.string()});
  more.push_back({"task.level", std::string("word")});
  more.push_back({"task.length", length});
  more.push_back({"task.lanes", lanes});
  return text_task.make(task_settings(text_task, more));
}

}  // namespace

TEST_CASE("Lanes: ten targets on two lanes, by hand", "[text][lanes]") {
  const text::Lanes plain(11, 2, 3, 3);
  CHECK(plain.targets() == 10);
  CHECK(plain.stretches() == 2);  // 3 + 2
  CHECK(plain.size(0) == 5);
  CHECK(plain.size(1) == 5);
  CHECK(plain.target(0, 0, 0) == 1);
  CHECK(plain.target(1, 4, 0) == 10);
  CHECK(plain.target(1, 4, 1) == 1);  // turned by one: from the end to the beginning

  const text::Lanes overlapping(11, 2, 3, 1);
  CHECK(overlapping.stretches() == 3);
  CHECK(overlapping.first(2) == 2);
  CHECK(overlapping.fresh(0) == 0);
  CHECK(overlapping.fresh(1) == 3);
  CHECK(overlapping.fresh(2) == 4);

  const text::Lanes uneven(10, 4, 8, 8);  // nine targets: 3, 3, 3, 0
  CHECK(uneven.stretches() == 1);
  CHECK(uneven.size(2) == 3);
  CHECK(uneven.size(3) == 0);
}

TEST_CASE("Lanes: every target is new in one stretch of one lane", "[text][lanes]") {
  for (const int64_t tokens : {2, 17, 100})
    for (const int64_t lanes : {1, 3, 7})
      for (const int64_t length : {1, 4, 30})
        for (const int64_t advance : {int64_t{1}, (length + 1) / 2, length}) {
          if (lanes > tokens - 1) continue;
          CAPTURE(tokens, lanes, length, advance);
          const text::Lanes l(tokens, lanes, length, advance);
          std::map<int64_t, int> times;
          for (int64_t i = 0; i < l.stretches(); ++i)
            for (int64_t lane = 0; lane < lanes; ++lane)
              for (int64_t p = l.fresh(i); p < std::min(l.first(i) + length, l.size(lane)); ++p)
                ++times[l.target(lane, p, 3)];
          CHECK(static_cast<int64_t>(times.size()) == tokens - 1);
          for (const auto& [target, n] : times) CHECK(n == 1);
        }
}

TEST_CASE("Streams of text: the batches that text.cpp draws", "[text][lanes]") {
  const TemporaryFolder folder;
  const auto path = numbers(folder, 20);
  const auto task = streams(path, 2, 6, {{"task.advance", int64_t{2}}, {"task.recent", int64_t{4}}});
  REQUIRE(task->lanes() == 2);
  const Batch first = task->batch(Split::train, 3, 0, 2), second = task->batch(Split::train, 3, 1, 2),
              third = task->batch(Split::train, 3, 2, 2);
  CHECK(first.fresh);
  CHECK_FALSE(second.fresh);
  CHECK(first.advance == 2);
  // Lane 0 holds 10 of the 20 targets, lane 1 the others.
  CHECK(std::equal(first.tokens.begin() + 2, first.tokens.begin() + 6, second.tokens.begin()));
  CHECK(std::equal(first.targets.begin(), first.targets.begin() + 5, first.tokens.begin() + 1));
  CHECK(Ids(second.targets.begin(), second.targets.begin() + 4) == Ids(4, -1));
  CHECK(second.targets[4] == second.tokens[5]);
  CHECK(third.tokens[0] == first.tokens[4]);
  CHECK(third.targets[5] == first.tokens[6]);  // the last target of lane 0 is the first token of lane 1

  // Validation moves on by T, whatever the seed, and ends.
  const Batch valid = task->batch(Split::valid, 1, 0, 2), next = task->batch(Split::valid, 1, 1, 2),
              end = task->batch(Split::valid, 1, 2, 2);
  CHECK(valid.advance == 6);
  CHECK(next.tokens[0] == valid.targets[5]);
  CHECK(Ids(next.targets.begin() + 4, next.targets.begin() + 6) == Ids(2, -1));  // 6 + 4 targets
  CHECK(std::all_of(end.targets.begin(), end.targets.end(), [](int32_t t) { return t < 0; }));
  CHECK(task->batch(Split::valid, 2, 1, 2).tokens == next.tokens);
  CHECK_THROWS_WITH(task->batch(Split::valid, 1, 0, 3),
                    "[text] batches of task.lanes = 2 rows expected: got 3");
}

TEST_CASE("Streams of text: copyable is what was read lately", "[text][lanes]") {
  const TemporaryFolder folder;
  for (const char* split : {"train", "valid", "test"})
    folder.write(std::string("text/") + split + ".txt", "a b c a b d d a c c b a a b c d");
  // In training a turn may join the end of the text to its beginning; what counts is what the stream has
  // read.
  for (const Split split : {Split::test, Split::train})
    for (const int64_t advance : {4, 2})
      for (const int64_t recent : {1, 2, 3, 100}) {
        const auto task =
            streams(folder / "text", 1, 4, {{"task.advance", advance}, {"task.recent", recent}});
        Ids read;
        for (int64_t i = 0; read.size() < 16; ++i) {
          const Batch b = task->batch(split, 1, i, 1);
          for (int64_t t = 0; t < 4; ++t) {
            if (b.targets[t] < 0) continue;
            read.push_back(b.tokens[t]);
            const int64_t n = static_cast<int64_t>(read.size()), from = std::max<int64_t>(0, n - recent);
            const bool seen = std::count(read.begin() + from, read.end(), b.targets[t]) > 0;
            CAPTURE(advance, recent, i, t);
            CHECK((b.slice[t] == 0) == seen);
          }
        }
        CHECK(read.size() == 16);  // 16 words and the <eos>, of which the first is no target
      }
}

TEST_CASE("Streams of text: training turns, and shows every target once an epoch", "[text][lanes]") {
  const TemporaryFolder folder;
  const auto path = numbers(folder, 50);
  for (const int64_t advance : {7, 3}) {
    const auto task = streams(path, 3, 7, {{"task.advance", advance}});
    const text::Lanes lanes(51, 3, 7, advance);
    Ids starts;
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      std::map<int32_t, int> times;
      for (int64_t i = 0; i < lanes.stretches(); ++i) {
        const Batch b = task->batch(Split::train, 1, epoch * lanes.stretches() + i, 3);
        CHECK(b.fresh == (i == 0));
        if (i == 0) starts.push_back(b.tokens[0]);
        for (const int32_t target : b.targets)
          if (target >= 0) ++times[target];
      }
      CHECK(times.size() == 50);
      for (const auto& [target, n] : times) CHECK(n == 1);
    }
    CHECK(std::set<int32_t>(starts.begin(), starts.end()).size() > 1);
    CHECK(task->batch(Split::train, 1, 0, 3).tokens != task->batch(Split::train, 2, 0, 3).tokens);
    const auto budget = task->budget(3 * lanes.stretches() * 2);
    CHECK(budget[0].second == 2.0);
    CHECK(budget[1].second == 100.0);
  }
}

TEST_CASE("Streams of text: what is refused", "[text][lanes]") {
  const TemporaryFolder folder;
  const auto path = numbers(folder, 5);
  CHECK(message_of([&] { streams(path, 6, 4); }) ==
        "[text] task.lanes: at most as many lanes as targets, 5, expected: got 6");
  CHECK(message_of([&] {
          streams(path, 1, 4, {{"task.advance", int64_t{5}}});
        }) == "[text] task.advance: 1..4 positions expected: got 5");
  CHECK(message_of([&] {
          streams(path, 0, 4, {{"task.advance", int64_t{2}}});
        }) == "[text] task.advance = 2 needs streams: set task.lanes");
}
