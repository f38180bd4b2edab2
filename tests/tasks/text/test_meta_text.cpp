// The text task with meta-tokens: batches by hand, places, labels of either kind, what stays equal without
// them.
#include <algorithm>
#include <cmath>
#include <set>

#include "tasks/fingerprint.h"
#include "tasks/prompts/alphabet.h"
#include "tasks/text/text.h"
#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::message_of;
using copylab::testing::TemporaryFolder;

namespace {

using Changes = std::vector<std::pair<std::string, Value>>;
using Ids = std::vector<int32_t>;

std::unique_ptr<Task> text_of(const Changes& changes) {
  return text_task.make(task_settings(text_task, changes));
}

// The words w0 w1 … of one line, at word level. The tests compare tokens with each other, not with numbers.
class Words {
 public:
  explicit Words(int64_t n) {
    std::string text;
    for (int64_t i = 0; i < n; ++i) text += "w" + std::to_string(i) + " ";
    for (const char* split : {"train", "valid", "test"})
      folder_.write(std::string("c/") + split + ".txt", text + "\n");
  }
  std::unique_ptr<Task> task(int64_t length, Changes more = {}) const {
    more.push_back({"task.path", (folder_ / "c").string()});
    more.push_back({"task.level", std::string("word")});
    more.push_back({"task.length", length});
    return text_of(more);
  }

 private:
  TemporaryFolder folder_;
};

Changes with_metas(double rate, Changes more = {}) {
  more.push_back({"task.symbols", true});
  more.push_back({"task.meta_rate", rate});
  return more;
}

// What a row reads of the text, its labels in order, and the ids asked for by meta-tokens.
struct Row {
  Ids read, asked;
  std::vector<int64_t> metas;
  int64_t meta_labels = 0;      // targets that are meta-tokens
  int64_t asked_from_meta = 0;  // labels at positions with a meta-token
};
Row row_of(const Task& task, const Batch& b, int64_t row) {
  Row r;
  const int32_t meta = Alphabet(task.vocab()).meta();
  int64_t end = 0;
  for (int64_t t = 0; t < b.length; ++t)
    if (b.targets[row * b.length + t] >= 0) end = t + 1;
  for (int64_t t = 0; t < end; ++t) {
    const int64_t i = row * b.length + t;
    const bool is_meta = !b.meta.empty() && b.meta[i] != 0;
    REQUIRE(is_meta == (b.tokens[i] == meta));
    if (is_meta) r.metas.push_back(t);
    if (!is_meta) r.read.push_back(b.tokens[i]);
    if (b.targets[i] == meta) ++r.meta_labels;
    if (b.targets[i] < 0 || b.targets[i] == meta) continue;
    r.asked.push_back(b.targets[i]);
    r.asked_from_meta += is_meta;
  }
  return r;
}

}  // namespace

TEST_CASE("task.symbols keeps ids behind those of the text", "[text]") {
  const Words words(50);
  const auto plain = words.task(8), kept = words.task(8, {{"task.symbols", true}});
  CHECK(kept->vocab() == plain->vocab() + Alphabet::kReserved);
  CHECK(kept->batch(Split::train, 1, 0, 9).tokens == plain->batch(Split::train, 1, 0, 9).tokens);
  CHECK(kept->batch(Split::train, 1, 0, 9).meta.empty());
  // task.vocab counts all ids.
  CHECK(words.task(8, {{"task.symbols", true}, {"task.vocab", int64_t{60}}})->vocab() == 60);
  CHECK(text_of({{"task.corpus", std::string("tinyshakespeare")},
                 {"task.level", std::string("byte")},
                 {"task.symbols", true}})
            ->vocab() == 256 + 41);
}

TEST_CASE("periodic meta-tokens by hand", "[text]") {
  const Words words(7);  // eight tokens with <eos>: the window is all seven targets
  const auto task = words.task(9, with_metas(2.0 / 9, {{"task.meta_placement", std::string("periodic")}}));
  const auto plain = words.task(7);
  const Batch b = task->batch(Split::test, 1, 0, 1), p = plain->batch(Split::test, 1, 0, 1);
  const int32_t meta = static_cast<int32_t>(task->vocab() - 1);
  const Ids &x = p.tokens, &y = p.targets;
  // Meta-tokens at (2i + 1) · 9 / 4 = 2 and 6.
  CHECK(b.tokens == Ids{x[0], x[1], meta, x[2], x[3], x[4], meta, x[5], x[6]});
  CHECK(b.targets == Ids{y[0], -1, y[1], y[2], y[3], -1, y[4], y[5], y[6]});
  CHECK(std::vector<int>(b.meta.begin(), b.meta.end()) == std::vector<int>{0, 0, 1, 0, 0, 0, 1, 0, 0});
  CHECK(b.bytes ==
        Ids{p.bytes[0], 0, p.bytes[1], p.bytes[2], p.bytes[3], 0, p.bytes[4], p.bytes[5], p.bytes[6]});
  CHECK(task->show(b, 0) == "w0 w1 _P_w2 w3 w4 _P_w5 w6 ⏎\n");

  const auto from_text = words.task(9, with_metas(2.0 / 9, {{"task.meta_placement", std::string("periodic")},
                                                            {"task.predict_from_meta", false}}));
  const Batch f = from_text->batch(Split::test, 1, 0, 1);
  CHECK(f.tokens == b.tokens);
  CHECK(f.targets == Ids{y[0], y[1], -1, y[2], y[3], y[4], -1, y[5], y[6]});
  CHECK(from_text->show(f, 0) == task->show(b, 0));

  const auto all = words.task(
      9, with_metas(2.0 / 9, {{"task.meta_placement", std::string("periodic")}, {"task.meta_loss", true}}));
  CHECK(all->batch(Split::test, 1, 0, 1).targets == b.targets);  // evaluations never ask for them
  CHECK(all->batch(Split::train, 1, 0, 1).targets ==
        Ids{y[0], meta, y[1], y[2], y[3], meta, y[4], y[5], y[6]});

  const auto none = words.task(9, with_metas(2.0 / 9, {{"task.meta_placement", std::string("none")}}));
  const Batch n = none->batch(Split::test, 1, 0, 1);
  CHECK(n.tokens == Ids{x[0], x[1], x[2], x[3], x[4], x[5], x[6], 0, 0});
  CHECK(n.targets == Ids{y[0], y[1], y[2], y[3], y[4], y[5], y[6], -1, -1});
  CHECK(std::count(n.meta.begin(), n.meta.end(), 0) == 9);
}

TEST_CASE("every arm reads the same text and is asked for the same targets once", "[text]") {
  const Words words(333);  // windows of 24, the last of a document shorter
  const double rate = 0.25;
  const auto made = [&](const char* placement, bool from_meta, bool loss) {
    return words.task(32, with_metas(rate, {{"task.meta_placement", std::string(placement)},
                                            {"task.predict_from_meta", from_meta},
                                            {"task.meta_loss", loss}}));
  };
  const auto plain = made("none", true, false), window = words.task(24, {{"task.symbols", true}});
  for (const Split split : {Split::train, Split::test}) {
    const Batch p = plain->batch(split, 4, 0, 40);
    const Batch w = window->batch(split, 4, 0, 40);
    for (const auto& task :
         {made("random", true, false), made("random", false, false), made("periodic", true, false),
          made("random", true, true), made("random", true, false)}) {
      const Batch b = task->batch(split, 4, 0, 40);
      for (int64_t row = 0; row < 40; ++row) {
        const Row r = row_of(*task, b, row), q = row_of(*plain, p, row), v = row_of(*window, w, row);
        REQUIRE(r.read == q.read);
        REQUIRE(r.asked == q.asked);
        REQUIRE(q.asked == v.asked);
        if (r.read.size() == 24) REQUIRE(r.metas.size() <= 8);
      }
    }
  }
  const Batch all = made("random", true, true)->batch(Split::train, 4, 0, 40);
  int64_t meta_labels = 0, asked_from_meta = 0, kept = 0;
  for (int64_t row = 0; row < 40; ++row) {
    const Row r = row_of(*plain, all, row);
    meta_labels += r.meta_labels;
    asked_from_meta += r.asked_from_meta;
    const Row f = row_of(*plain, made("random", false, false)->batch(Split::train, 4, 0, 40), row);
    kept += f.asked_from_meta;
  }
  CHECK(meta_labels > 0);
  CHECK(asked_from_meta > 0);
  CHECK(kept == 0);
}

TEST_CASE("random meta-tokens stand anywhere, anew in every epoch, and the same in every test", "[text]") {
  const Words words(2000);
  const auto task = words.task(20, with_metas(0.2));
  std::vector<int> at(20, 0);
  const int64_t rows = 4000;
  const Batch b = task->batch(Split::train, 1, 0, rows);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t metas = 0, read = 0;
    for (int64_t t = 0; t < 20; ++t) {
      metas += b.meta[row * 20 + t];
      read += b.targets[row * 20 + t] >= 0;
      at[t] += b.meta[row * 20 + t];
    }
    if (read == 16) REQUIRE(metas == 4);
  }
  for (int64_t t = 0; t < 20; ++t) {
    INFO(t);
    CHECK(at[t] == Approx(rows * 0.2).margin(6 * std::sqrt(rows * 0.16) + 40));  // some windows are short
  }
  CHECK(task->batch(Split::train, 1, 0, 9).meta != task->batch(Split::train, 2, 0, 9).meta);
  CHECK(task->batch(Split::test, 1, 0, 9).meta == task->batch(Split::test, 2, 0, 9).meta);
  CHECK(task->batch(Split::test, 1, 0, 9).meta != task->batch(Split::valid, 1, 0, 9).meta);
  // A batch of rows is those rows one by one.
  const Batch last = task->batch(Split::train, 1, 8, 1), nine = task->batch(Split::train, 1, 0, 9);
  CHECK(std::equal(last.tokens.begin(), last.tokens.end(), nine.tokens.end() - 20));
}

TEST_CASE("golden hashes of text with meta-tokens", "[text]") {
  // A changed hash means changed data: raise the task's version.
  const auto hash = [](Changes changes, Split split) {
    changes.push_back({"task.corpus", std::string("tinyshakespeare")});
    changes.push_back({"task.level", std::string("byte")});
    return fingerprint(*text_of(with_metas(0.1, changes)), split, 1);
  };
  CHECK(hash({}, Split::train) == 0x662fc31f98d639f7);
  CHECK(hash({}, Split::test) == 0x6273283e948ff6e7);
  CHECK(hash({{"task.meta_loss", true}}, Split::train) == 0x25728fc8b4894750);
  CHECK(hash({{"task.meta_placement", std::string("periodic")}, {"task.predict_from_meta", false}},
             Split::train) == 0x5e460650f6eee18d);
}

TEST_CASE("settings of meta-tokens in text that do not fit are refused", "[text]") {
  const Words words(50);
  CHECK(message_of([&] {
          words.task(8, {{"task.meta_rate", 0.5}});
        }) == "[text] task.meta_rate needs task.symbols: the meta-token's id is kept by it");
  CHECK(message_of([&] { words.task(8, with_metas(0.95)); }) ==
        "[text] task.meta_rate of less than 1 - 1/(2 task.length) expected: got 0.95");
  CHECK(message_of([&] {
          words.task(8, {{"task.meta_loss", true}, {"task.predict_from_meta", false}});
        }) == "[text] task.meta_loss needs task.predict_from_meta: a position is asked for one target");
  CHECK(message_of([&] {
          words.task(8, {{"task.symbols", true}, {"task.vocab", int64_t{41}}});
        }) == "[text] task.vocab above the 41 ids that task.symbols keeps expected: got 41");
}

TEST_CASE("a prompt may hold meta-tokens, and comes back", "[text]") {
  const Words words(40);
  const auto task = words.task(8, with_metas(0.25));
  const int32_t meta = Alphabet(task->vocab()).meta();
  const Ids ids = task->tokens_of("w1 _P_w2 _P_");
  REQUIRE(ids.size() == 4);
  CHECK((ids[1] == meta && ids[3] == meta));
  CHECK(ids[0] == task->tokens_of("w1 ")[0]);
  CHECK(ids[2] == task->tokens_of("w2 ")[0]);
  CHECK(task->text_of({meta, ids[2]}) == "_P_" + task->text_of({ids[2]}));
  const Ids without = words.task(8)->tokens_of("_P_");  // an unknown word
  CHECK(std::count(without.begin(), without.end(), meta) == 0);
}
