// What the four meta-token tasks share: ids, random portions, and prompts that differ in nothing but the
// pause.
#include "tasks/prompts/prompt_task.h"

#include <map>
#include <set>

#include "core/error.h"
#include "tests/messages.h"
#include "tests/tasks/prompts/prompt_check.h"

using namespace copylab;
using namespace copylab::testing;

namespace {

const std::vector<std::string> kTasks = {"list_recall", "segment_counting", "parity", "bracket_copy"};

std::unique_ptr<Task> task_of(const std::string& name, const Changes& changes) {
  const TaskEntry& entry = find_task(name);
  return entry.make(task_settings(entry, changes));
}

std::vector<std::string> without(std::vector<std::string> symbols, const std::string& what) {
  std::erase(symbols, what);
  return symbols;
}

}  // namespace

TEST_CASE("the alphabet keeps 41 ids behind the words, the meta-token last", "[prompts]") {
  const Alphabet a(100);
  CHECK(a.words() == 59);
  CHECK(a.text(58) == "w58");
  CHECK(a.text(59) == "0");
  CHECK(a.number(31) == 90);
  CHECK(a.text(90) == "31");
  CHECK(a.text(91) == ":");
  CHECK(a.text(98) == "L");
  CHECK(a.symbol(Alphabet::Symbol::equals) == 94);
  CHECK(a.text(94) == "=");
  CHECK(a.meta() == 99);
  CHECK(a.text(99) == "_P_");
  std::set<std::string> texts;
  for (int32_t id = 0; id < 100; ++id) texts.insert(a.text(id));
  CHECK(texts.size() == 100);
}

TEST_CASE("a random cut gives every list of portions the same chance", "[prompts]") {
  std::map<std::vector<int64_t>, int> times;  // 3 in 3 parts: 10 lists
  const int draws = 20000;
  for (int n = 0; n < draws; ++n) {
    Draws d(Random(7, "test_prompts", static_cast<uint64_t>(n)));
    ++times[random_cut(d, 3, 3)];
  }
  CHECK(times.size() == 10);
  for (const auto& [parts, count] : times) {
    CHECK(parts[0] + parts[1] + parts[2] == 3);
    CHECK(count == Approx(draws / 10.0).margin(6 * std::sqrt(draws * 0.09)));
  }
  Draws d(Random(7, "test_prompts", 0));
  CHECK(random_cut(d, 5, 1) == std::vector<int64_t>{5});
  CHECK(random_cut(d, 0, 3) == std::vector<int64_t>{0, 0, 0});
}

TEST_CASE("slices by powers of two", "[prompts]") {
  CHECK(octave_names("d", 7) == std::vector<std::string>{"d_1", "d_2_3", "d_4_7"});
  CHECK(octave_names("d", 8).back() == "d_8_15");
  CHECK(octave(1) == 0);
  CHECK(octave(7) == 2);
  CHECK(octave(8) == 3);
}

TEST_CASE("only the place of meta-tokens depends on task.pause", "[prompts]") {
  const std::map<std::string, size_t> metas = {
      {"list_recall", 2}, {"segment_counting", 2}, {"parity", 1}, {"bracket_copy", 2}};
  for (const std::string& name : kTasks) {
    INFO(name);
    const auto made = [&](const char* pause) {
      return task_of(
          name,
          {{"task.pause", std::string(pause)}, {"task.length", int64_t{60}}, {"task.words", int64_t{20}}});
    };
    const auto right = made("right"), wrong = made("wrong"), none = made("none");
    const auto batch = [](const Task& task) { return task.batch(Split::test, 3, 1, 64); };
    const Batch r = batch(*right), w = batch(*wrong), n = batch(*none);
    CHECK(r.targets == w.targets);
    CHECK(r.targets == n.targets);
    for (const Batch* b : {&r, &w}) {
      REQUIRE(b->meta.size() == b->tokens.size());
      for (size_t i = 0; i < b->tokens.size(); ++i)
        REQUIRE((b->meta[i] != 0) == (b->tokens[i] == Alphabet(right->vocab()).meta()));
    }
    CHECK(std::count(n.meta.begin(), n.meta.end(), 0) == static_cast<int64_t>(n.meta.size()));
    for (int64_t row = 0; row < 64; ++row) {
      const auto a = symbols_of(*right, r, row), b = symbols_of(*wrong, w, row),
                 c = symbols_of(*none, n, row);
      REQUIRE(a != b);  // never right by accident
      REQUIRE(without(a, "_P_") == without(b, "_P_"));
      REQUIRE(static_cast<size_t>(std::count(a.begin(), a.end(), "_P_")) == metas.at(name));
      REQUIRE(static_cast<size_t>(std::count(b.begin(), b.end(), "_P_")) == metas.at(name));
      REQUIRE(place_of(c, "_P_") == 61);
      // The same lists, bits or brackets and the same question, with words elsewhere.
      REQUIRE(c.size() == a.size());
    }
    for (const Task* task : {right.get(), wrong.get(), none.get()}) {
      const Batch b = batch(*task);
      const std::vector<int32_t> found = task->solve(b);
      for (size_t i = 0; i < found.size(); ++i)
        if (b.targets[i] >= 0) REQUIRE(found[i] == b.targets[i]);
    }
  }
}

TEST_CASE("a longer prompt has the same content and more words", "[prompts]") {
  for (const std::string name : {"list_recall", "segment_counting", "bracket_copy"}) {
    INFO(name);
    const auto near = task_of(name, {{"task.length", int64_t{40}}}),
               far = task_of(name, {{"task.length", int64_t{90}}});
    const Batch a = near->batch(Split::train, 5, 0, 40), b = far->batch(Split::train, 5, 0, 40);
    for (int64_t row = 0; row < 40; ++row) {
      const auto content = [&](const Task& task, const Batch& batch) {
        std::vector<std::string> kept;  // what stands between symbols that only content has
        bool inside = false;
        for (const std::string& s : symbols_of(task, batch, row)) {
          if (s == "L" || s == "[" || s == "?") inside = true;
          if (inside) kept.push_back(s);
          if (s == ";" || (s == "]" && name == "bracket_copy")) inside = false;
        }
        return kept;
      };
      REQUIRE(content(*near, a) == content(*far, b));
    }
  }
}

TEST_CASE("an answer is the last of T + 1 symbols, and nothing else has a label", "[prompts]") {
  for (const std::string& name : kTasks) {
    INFO(name);
    const auto task = task_of(name, {});
    const int64_t asked = name == "bracket_copy" ? 4 : 1, length = task->length();
    const Batch b = task->batch(Split::valid, 1, 0, 50);
    for (int64_t row = 0; row < 50; ++row) {
      const std::vector<std::string> s = symbols_of(*task, b, row);
      REQUIRE(s[length - asked] == "=");
      for (int64_t t = 0; t < length; ++t)
        REQUIRE((b.targets[row * length + t] >= 0) == (t >= length - asked));
    }
  }
}

TEST_CASE("task.words limits what prompts are drawn from", "[prompts]") {
  for (const std::string& name : kTasks) {
    const auto task = task_of(name, {{"task.words", int64_t{5}}});
    const Batch b = task->batch(Split::train, 1, 0, 50);
    std::set<int32_t> words;
    for (const int32_t id : b.tokens)
      if (Alphabet(1024).is_word(id)) words.insert(id);
    CHECK(words == std::set<int32_t>{0, 1, 2, 3, 4});
  }
}

TEST_CASE("prompts that do not fit are refused", "[prompts]") {
  CHECK(message_of([] {
          task_of("list_recall", {{"task.length", int64_t{22}}});
        }) == "[list_recall] task.length of at least 23 expected, for a prompt of this level: got 22");
  CHECK(message_of([] {
          task_of("segment_counting", {{"task.length", int64_t{23}}});
        }) == "[segment_counting] task.length of at least 24 expected, for a prompt of this level: got 23");
  CHECK(message_of([] {
          task_of("parity", {{"task.level", std::string("hard")}, {"task.length", int64_t{19}}});
        }) == "[parity] task.length of at least 20 expected, for a prompt of this level: got 19");
  CHECK(message_of([] {
          task_of("bracket_copy", {{"task.length", int64_t{12}}});
        }) == "[bracket_copy] task.length of at least 13 expected, for a prompt of this level: got 12");
  for (const auto& [name, least] : {std::pair<std::string, int64_t>{"list_recall", 23},
                                    {"segment_counting", 24},
                                    {"parity", 8},
                                    {"bracket_copy", 13}})
    CHECK(task_of(name, {{"task.length", least}})->batch(Split::train, 1, 0, 3).rows == 3);
  CHECK(message_of([] {
          task_of("parity", {{"task.words", int64_t{984}}});
        }) == "[parity] task.words of at most 983 expected, for 41 of 1024 ids are kept: got 984");
  CHECK(message_of([] {
          task_of("list_recall", {{"task.lists", int64_t{1}}, {"task.pause", std::string("wrong")}});
        }) == "[list_recall] task.pause=wrong needs task.lists of at least 2");
  CHECK(message_of([] {
          task_of("bracket_copy", {{"task.length", int64_t{14}}, {"task.pause", std::string("wrong")}});
        }) ==
        "[bracket_copy] task.length of at least 15 expected, so that task.pause=wrong has places: got 14");
}
