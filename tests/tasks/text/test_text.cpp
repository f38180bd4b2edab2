// The text task: batches by hand, epochs, evaluation splits, bytes, the user's files, and what is refused.
#include "tasks/text/text.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include "tasks/fingerprint.h"
#include "tasks/text/cache.h"
#include "tasks/text/encoded_text.h"
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

std::unique_ptr<Task> text_of(const Changes& changes) {
  return text_task.make(task_settings(text_task, changes));
}

std::unique_ptr<Task> word_task(const std::filesystem::path& path, int64_t length, Changes more = {}) {
  more.push_back({"task.path", path.string()});
  more.push_back({"task.level", std::string("word")});
  more.push_back({"task.length", length});
  return text_of(more);
}

// A user's folder whose splits have the given texts.
std::filesystem::path corpus(const TemporaryFolder& folder, const std::string& name, const std::string& train,
                             const std::string& valid, const std::string& test) {
  folder.write(name + "/train.txt", train);
  folder.write(name + "/valid.txt", valid);
  folder.write(name + "/test.txt", test);
  return folder / name;
}

// n words, each its own: w0 w1 …
std::string words(int64_t n) {
  std::string text;
  for (int64_t i = 0; i < n; ++i) text += "w" + std::to_string(i) + (i % 7 == 6 ? "\n" : " ");
  return text + "\n";
}

// How often each target of a split is asked for in sequences first..first+count-1, and the bytes of all.
struct Asked {
  std::map<int32_t, int> times;
  int64_t labels = 0, bytes = 0;
};
Asked asked(const Task& task, Split split, int64_t first, int64_t count, uint64_t seed = 1) {
  Asked all;
  for (int64_t n = first; n < first + count; ++n) {
    const Batch b = task.batch(split, seed, n, 1);
    for (size_t i = 0; i < b.targets.size(); ++i) {
      if (b.targets[i] < 0) {
        CHECK(b.bytes[i] == 0);
        continue;
      }
      ++all.times[b.targets[i]];
      ++all.labels;
      all.bytes += b.bytes[i];
    }
  }
  return all;
}

// Sets an environment variable for a scope.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("a text batch by hand", "[text]") {
  const TemporaryFolder folder;
  // Ids: 0 <unk>, 1 <eos>, 2 a, 3 b, 4 c.
  const auto task = word_task(corpus(folder, "c", "a a a b b c\n", "a b\n", "a b a new b\n"), 4);
  CHECK(task->vocab() == 5);
  CHECK(task->chance() == 0.2);
  CHECK(std::isnan(task->ceiling()));
  CHECK_FALSE(task->generated());
  CHECK(task->slices() == std::vector<std::string>{"copyable", "new"});
  // Six tokens, five targets: windows a b a new -> b a <unk> b, and b -> <eos>, in some order.
  const Batch b = task->batch(Split::test, 1, 0, 3);
  const int64_t first = b.targets[0] == 3 ? 0 : 4, second = 4 - first;
  const auto row = [](const Ids& all, int64_t at) { return Ids(all.begin() + at, all.begin() + at + 4); };
  CHECK(row(b.tokens, first) == Ids{2, 3, 2, 0});
  CHECK(row(b.targets, first) == Ids{3, 2, 0, 3});
  CHECK(row(b.slice, first) == Ids{1, 0, 1, 0});
  CHECK(row(b.bytes, first) == Ids{2, 2, 4, 1});
  CHECK(row(b.tokens, second) == Ids{3, 0, 0, 0});
  CHECK(row(b.targets, second) == Ids{1, -1, -1, -1});
  CHECK(row(b.slice, second)[0] == 1);
  CHECK(row(b.bytes, second) == Ids{1, 0, 0, 0});
  CHECK(row(b.targets, 8) == Ids(4, -1));  // the split has two sequences
  CHECK(task->solve(b) == Ids(12, -1));
  CHECK(task->show(b, first / 4) == "a b a <unk> b \n    ^^      ^^\n");
}

TEST_CASE("an epoch asks for every target once, in an order of its own", "[text]") {
  const TemporaryFolder folder;
  const std::string text = words(500);
  const auto task = word_task(corpus(folder, "c", text, text, text), 6);
  const int64_t targets = 500 + 500 / 7 + 1 - 1;
  const int64_t sequences = std::llround(1 / task->budget(1)[0].second);
  CHECK(task->budget(2 * sequences)[0].second == Approx(2.0));
  CHECK(task->budget(2 * sequences)[1].second == Approx(2.0 * targets));
  Asked all;
  for (const int64_t epoch : {0, 1, 5}) {
    all = asked(*task, Split::train, epoch * sequences, sequences);
    CHECK(all.labels == targets);
    CHECK(all.bytes == static_cast<int64_t>(text.size()) - 3);  // "w0 " is never a target
    for (const auto& [id, times] : all.times) CHECK(times == (id == 1 ? 500 / 7 + 1 : 1));
  }
  const auto tokens = [&](uint64_t seed, int64_t from) {
    Ids ids;
    for (int64_t n = from; n < from + sequences; ++n) {
      const Batch b = task->batch(Split::train, seed, n, 1);
      ids.insert(ids.end(), b.tokens.begin(), b.tokens.end());
    }
    return ids;
  };
  CHECK(tokens(1, 0) == tokens(1, 0));
  CHECK(tokens(1, 0) != tokens(2, 0));
  CHECK(tokens(1, 0) != tokens(1, sequences));
  // A batch of rows is those rows one by one.
  const Batch rows = task->batch(Split::train, 1, 3, 4), last = task->batch(Split::train, 1, 15, 1);
  CHECK(Ids(rows.tokens.begin() + 18, rows.tokens.end()) == last.tokens);
  CHECK(Ids(rows.slice.begin() + 18, rows.slice.end()) == last.slice);
}

TEST_CASE("validation and test are the same for every seed and count nothing twice", "[text]") {
  const TemporaryFolder folder;
  const std::string text = words(300);
  const auto task = word_task(corpus(folder, "c", text, text, text), 8);
  for (const Split split : {Split::valid, Split::test}) {
    const Asked all = asked(*task, split, 0, 1000);
    CHECK(all.labels == 300 + 300 / 7 + 1 - 1);
    CHECK(all.bytes == static_cast<int64_t>(text.size()) - 3);
    for (const auto& [id, times] : all.times) CHECK((id == 1 || times == 1));
    CHECK(task->batch(split, 1, 0, 50).tokens == task->batch(split, 2, 0, 50).tokens);
  }
  CHECK(task->batch(Split::valid, 1, 0, 40).tokens != task->batch(Split::test, 1, 0, 40).tokens);
  // A sample from everywhere: the first eight of 43 sequences do not all lie in one half.
  int early = 0;
  const Batch b = task->batch(Split::test, 1, 0, 8);
  for (int64_t row = 0; row < 8; ++row) early += b.tokens[row * 8 + 1] < 150;
  CHECK((early > 0 && early < 8));
}

TEST_CASE("windows stay inside documents unless told otherwise", "[text]") {
  const TemporaryFolder folder;
  for (const char* split : {"train", "valid", "test"}) {
    folder.write(std::string("c/") + split + "/1.txt", "a b\n");
    folder.write(std::string("c/") + split + "/2.txt", "c\n");
    folder.write(std::string("c/") + split + "/3.txt", "");
    folder.write(std::string("c/") + split + "/4.txt", "\n");  // one token: no target
  }
  CHECK(asked(*word_task(folder / "c", 8), Split::test, 0, 10).labels == 2 + 1);
  const auto crossing = word_task(folder / "c", 8, {{"task.cross_documents", true}});
  const Batch b = crossing->batch(Split::test, 1, 0, 1);
  CHECK(Ids(b.targets.begin(), b.targets.begin() + 6) == Ids{3, 1, 4, 1, 1, -1});
  CHECK(b.slice[3] == 0);  // an <eos> of the document before counts
}

TEST_CASE("bytes of shipped corpora add up at every level", "[text]") {
  const struct {
    std::string corpus, level;
    int64_t vocab, bytes, documents, first_bytes;
  } cases[] = {
      // The first token of each article is unpredicted: " " (byte, bpe), or the <eos> and the space after it.
      {"wikitext-2", "byte", 0, 1256449, 60, 1},
      {"wikitext-2", "word", 0, 1256449, 60, 3},
      {"wikitext-2", "bpe", 4096, 1256449, 60, 1},
      {"novels", "byte", 256, 466854 + 1029898, 2, 1},
  };
  for (const auto& c : cases) {
    INFO(c.corpus << " " << c.level);
    const auto task = text_of({{"task.corpus", c.corpus}, {"task.level", c.level}, {"task.vocab", c.vocab}});
    const Batch b = task->batch(Split::test, 1, 0, 12000);
    CHECK(std::accumulate(b.bytes.begin(), b.bytes.end(), int64_t{0}) ==
          c.bytes - c.documents * c.first_bytes);
    CHECK(std::count(b.targets.end() - 128, b.targets.end(), -1) == 128);  // all of the split was seen
  }
}

TEST_CASE("golden hashes of text that is not SentencePiece's", "[text]") {
  struct Golden {
    std::string corpus, level;
    Split split;
    uint64_t seed, hash;
  };
  // A changed hash means changed data: raise the task's version.
  const Golden golden[] = {
      {"wikitext-2", "word", Split::train, 1, 0xff282935abc344cc},
      {"wikitext-2", "word", Split::test, 1, 0xc873322357248c33},
      {"tinyshakespeare", "byte", Split::train, 1, 0x7a1fd9f288a740d7},
      {"tinyshakespeare", "byte", Split::train, 2, 0xfdb0af85dbc453a3},
      {"novels", "byte", Split::valid, 1, 0x7d1f40f0a7fcc2f0},
  };
  for (const Golden& g : golden) {
    const auto task = text_of({{"task.corpus", g.corpus}, {"task.level", g.level}});
    INFO(g.corpus << " " << g.level << " " << name_of(g.split) << " " << g.seed);
    CHECK(fingerprint(*task, g.split, g.seed) == g.hash);
  }
}

TEST_CASE("a model of one corpus may be tested on another", "[text]") {
  const TemporaryFolder folder;
  const auto a = corpus(folder, "a", "x x y\n", "x y\n", "y y\n");
  const auto b = corpus(folder, "b", "p q\n", "p\n", "q x z\n");
  const auto plain = word_task(a, 4), other = word_task(a, 4, {{"task.test_corpus", b.string()}});
  CHECK(other->vocab() == plain->vocab());
  CHECK(other->batch(Split::train, 1, 0, 2).tokens == plain->batch(Split::train, 1, 0, 2).tokens);
  CHECK(other->batch(Split::valid, 1, 0, 2).tokens == plain->batch(Split::valid, 1, 0, 2).tokens);
  CHECK(other->batch(Split::test, 1, 0, 1).tokens == Ids{0, 2, 0, 0});
  CHECK(other->batch(Split::test, 1, 0, 1).targets == Ids{2, 0, 1, -1});
}

TEST_CASE("Mikolov's Penn Treebank format works as it is", "[text]") {
  const TemporaryFolder folder;
  for (const char* split : {"train", "valid", "test"})
    folder.write(std::string("ptb.") + split + ".txt", " no it was n't black monday \n but <unk> N N \n");
  const auto task = word_task(folder / "ptb", 20);
  CHECK(task->vocab() == 2 + 8);
  const Asked all = asked(*task, Split::test, 0, 2);
  CHECK(all.labels == 6 + 1 + 4 + 1 - 1);
  // The folder alone will do, and as streams: 11 targets on two lanes.
  const auto streams = text_of({{"task.path", folder.path().string()},
                                {"task.level", std::string("word")},
                                {"task.length", int64_t{3}},
                                {"task.lanes", int64_t{2}}});
  CHECK(streams->vocab() == 2 + 8);
  int64_t labels = 0;
  for (int64_t i = 0; i < 2; ++i) {
    const Batch b = streams->batch(Split::valid, 1, i, 2);
    labels += std::count_if(b.targets.begin(), b.targets.end(), [](int32_t t) { return t >= 0; });
  }
  CHECK(labels == 11);
}

TEST_CASE("awkward texts have a clear result or a one-line error", "[text]") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& text, const Changes& changes) {
    static int number = 0;  // a text is read once per path
    const auto path = corpus(folder, std::to_string(number++), text, "a b\n", "a b\n");
    Changes all = changes;
    all.push_back({"task.path", path.string()});
    return message_of([&] { text_of(all)->batch(Split::train, 1, 0, 1); });
  };
  const Changes word = {{"task.level", std::string("word")}}, byte = {{"task.level", std::string("byte")}};
  CHECK(contains(message("", word), "the train split is empty"));
  CHECK(contains(message("\n", word), "a document of at least two tokens expected in the train split"));
  CHECK(contains(message("x", byte), "a document of at least two tokens expected in the train split"));
  CHECK(message("no unknown word\n", word) == "no error");
  CHECK(message("CR\r\nLF\r\n", word) == "no error");
  CHECK(message("\xFF\xFE\x80\n", byte) == "no error");
  CHECK(message("\xFF \xFE\x80 \xFF\n", word) == "no error");
  CHECK(contains(message("two words\n", {{"task.level", std::string("word")}, {"task.vocab", int64_t{5}}}),
                 "task.vocab of 3 to 4 expected at word level"));
  CHECK(contains(message("two words\n", {{"task.level", std::string("word")}, {"task.lanes", int64_t{3}}}),
                 "at most as many lanes as targets, 2, expected: got 3"));
  CHECK(contains(message("short\n", {{"task.vocab", int64_t{100}}}), "task.vocab of at least 2"));
  CHECK(contains(message("short\n", {}), "task.vocab of at most 2"));
  CHECK(message("short\n", {{"task.level", std::string("byte")}, {"task.vocab", int64_t{300}}}) ==
        "[text] task.vocab 256 expected at byte level: got 300");
  CHECK(contains(message("\xFD"
                         "7zXZ" +
                             std::string(1, '\0') + "rest",
                         word),
                 ".xz file"));

  // Bytes that are no UTF-8 are words like others; without any <unk> in the text, unseen words still are one.
  const auto broken = word_task(corpus(folder, "broken", "\xFF b\n\xFF\n", "b\n", "b \xFF \xFE b\n"), 5);
  const Batch odd = broken->batch(Split::test, 1, 0, 1);
  CHECK(std::vector<int32_t>(odd.targets.begin(), odd.targets.begin() + 4) ==
        std::vector<int32_t>{2, 0, 3, 1});

  // White space of either kind separates the same words; the carriage return counts as a byte.
  const auto unix_lines = word_task(corpus(folder, "lf", "a b\nc\n", "a\n", "a b\nc\n"), 5);
  const auto dos_lines = word_task(corpus(folder, "crlf", "a b\r\nc\r\n", "a\r\n", "a b\r\nc\r\n"), 5);
  const Batch lf = unix_lines->batch(Split::test, 1, 0, 1), crlf = dos_lines->batch(Split::test, 1, 0, 1);
  CHECK(lf.targets == crlf.targets);
  CHECK(std::accumulate(crlf.bytes.begin(), crlf.bytes.end(), 0) ==
        std::accumulate(lf.bytes.begin(), lf.bytes.end(), 0) + 2);
}

TEST_CASE("what was kept on disk is used, checked, and not needed", "[text]") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += "the cat and the hat sat on the mat with number " + std::to_string(i * i) + "\n";
  const auto ids_of = [&](const std::string& name) {
    return text::encoded_text({.corpus = corpus(folder, name, text, text, text).string(),
                               .test_corpus = "",
                               .level = "bpe",
                               .vocab = 300})
        ->split(Split::train)
        .tokens.ids;
  };
  const Environment cache("COPYLAB_CACHE", (folder / "cache").string());
  const Ids fresh = ids_of("a");
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(text::cache_folder()))
    files.insert(entry.path());
  CHECK(files.size() == 2);  // one model; the ids of three splits with the same text
  CHECK(ids_of("b") == fresh);
  for (const auto& file : files) {  // cut short, as after a full disk
    CHECK(file.extension() != ".tmp");
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 5);
  }
  CHECK(ids_of("c") == fresh);
  CHECK(text::read_cache(files.begin()->filename().string()));
  {
    const Environment unwritable("COPYLAB_CACHE", folder.write("file", "x").string());
    CHECK(ids_of("d") == fresh);
  }
  CHECK_FALSE(text::read_cache("nothing"));
}
