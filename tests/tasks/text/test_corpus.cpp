// Corpora: the shipped ones, the user's own in each of their forms, documents and splits.
#include "tasks/text/corpus.h"

#include <numeric>

#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using namespace copylab::text;
using copylab::testing::contains;
using copylab::testing::message_of;
using copylab::testing::TemporaryFolder;

namespace {

using Texts = std::vector<std::string>;

std::string joined(const Texts& documents) {
  return std::accumulate(documents.begin(), documents.end(), std::string());
}

}  // namespace

TEST_CASE("WikiText-2 has 600, 60 and 60 articles", "[text]") {
  const Corpus corpus("wikitext-2");
  const Texts train = corpus.documents(Split::train), valid = corpus.documents(Split::valid),
              test = corpus.documents(Split::test);
  CHECK(train.size() == 600);
  CHECK(valid.size() == 60);
  CHECK(test.size() == 60);
  CHECK(joined(train).size() == 10797148);
  CHECK(joined(valid).size() == 1121681);
  CHECK(joined(test).size() == 1256449);
  CHECK(test[0].substr(0, 21) == " \n = Robert <unk> = \n");
  for (const std::string& article : test) CHECK(article.substr(0, 5) == " \n = ");
}

TEST_CASE("Tiny Shakespeare is one file in three contiguous parts", "[text]") {
  const Corpus corpus("tinyshakespeare");
  const Texts train = corpus.documents(Split::train), valid = corpus.documents(Split::valid),
              test = corpus.documents(Split::test);
  CHECK((train.size() == 1 && valid.size() == 1 && test.size() == 1));
  CHECK(train[0].size() + valid[0].size() + test[0].size() == 1115394);
  CHECK(train[0].size() >= 1003854);  // 90 %, to the end of the line
  CHECK(train[0].size() < 1003854 + 80);
  CHECK((train[0].back() == '\n' && valid[0].back() == '\n'));
  CHECK(corpus.fingerprint(Split::train) != corpus.fingerprint(Split::valid));
}

TEST_CASE("novels are documents of their own, split by book", "[text]") {
  const Corpus corpus("novels");
  CHECK(corpus.documents(Split::train).size() == 3);
  CHECK(corpus.documents(Split::valid)[0].size() == 394205);
  const Texts test = corpus.documents(Split::test);
  REQUIRE(test.size() == 2);
  CHECK(test[0].size() == 466854);
  CHECK(test[1].size() == 1029898);
}

TEST_CASE("articles start at the empty line before a title", "[text]") {
  CHECK(split_articles("") == Texts{});
  CHECK(split_articles("plain\n\ntext") == Texts{"plain\n\ntext"});
  const std::string first = " \n = A = \n \n text \n \n = = Section = = \n \n",
                    second = " \n = B C = \n \n x";
  CHECK(split_articles(first + second) == Texts{first, second});
  CHECK(split_articles("preface\n" + first) == Texts{"preface\n", first});
  CHECK(split_articles("\r\n= A =\r\n\r\nx\r\n\r\n= B =\r\n\r\n") ==
        Texts{"\r\n= A =\r\n\r\nx\r\n", "\r\n= B =\r\n\r\n"});
  // A line of a title's shape inside a paragraph is none: an empty line is missing.
  CHECK(split_articles(" \n = A = \n \n x \n = B = \n \n").size() == 1);
  CHECK(split_articles(" \n = A = \n \n \n = B = \n x \n").size() == 1);
}

TEST_CASE("a user's text may be a file, a folder or a prefix", "[text]") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "line " + std::to_string(10 + i % 90) + "\n";  // 8 bytes each
  const Corpus file(folder.write("lines.txt", lines).string());
  CHECK(joined(file.documents(Split::train)) == lines.substr(0, 720));
  CHECK(joined(file.documents(Split::valid)) == lines.substr(720, 40));
  CHECK(joined(file.documents(Split::test)) == lines.substr(760));

  for (const char* split : {"train", "valid", "test"}) {
    folder.write(std::string("ptb/ptb.") + split + ".txt", split);
    folder.write(std::string("wiki/wiki.") + split + ".tokens", split);
    folder.write(std::string("two/") + split + ".txt", split);
    folder.write(std::string("two/b.") + split + ".raw", std::string("b ") + split);
    folder.write(std::string("books/") + split + "/2.txt", "second");
    folder.write(std::string("books/") + split + "/1.txt", std::string("first ") + split);
  }
  folder.write("ptb/README", "not a split");
  for (const char* name : {"ptb", "ptb/ptb", "wiki"}) {
    const Corpus corpus((folder / name).string());
    CHECK(corpus.documents(Split::train) == Texts{"train"});
    CHECK(corpus.documents(Split::valid) == Texts{"valid"});
    CHECK(corpus.documents(Split::test) == Texts{"test"});
  }
  CHECK(Corpus((folder / "two/b").string()).documents(Split::test) == Texts{"b test"});
  CHECK(Corpus((folder / "books").string()).documents(Split::valid) == Texts{"first valid", "second"});
  CHECK(contains(message_of([&] { Corpus((folder / "two").string()); }), "one train file expected: got "));
}

TEST_CASE("missing and empty files are one-line errors", "[text]") {
  const TemporaryFolder folder;
  CHECK(contains(message_of([&] { Corpus((folder / "none").string()); }), "with no train file"));
  CHECK(contains(message_of([&] { Corpus(folder.path().string()); }), "with no train file"));
  CHECK(contains(message_of([] { Corpus("wikitext2"); }), "did you mean 'wikitext-2'?"));
  folder.write("half/train.txt", "x");
  folder.write("half/valid.txt", "x");
  CHECK(contains(message_of([&] { Corpus((folder / "half").string()); }), "with no test file"));
  const std::string empty = folder.write("empty.txt", "").string();
  CHECK(message_of([&] { Corpus(empty).documents(Split::train); }) ==
        "[text] " + empty + ": the train split is empty");
  const std::string one = folder.write("one.txt", "a single line\n").string();
  CHECK(contains(message_of([&] { Corpus(one).documents(Split::valid); }), "the valid split is empty"));
}

TEST_CASE("a fingerprint follows the text", "[text]") {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.txt", "one\ntwo\n").string();
  const uint64_t before = Corpus(a).fingerprint(Split::train);
  CHECK(Corpus(folder.write("b.txt", "one\ntwo\n").string()).fingerprint(Split::train) == before);
  folder.write("a.txt", "one\ntwx\n");
  CHECK(Corpus(a).fingerprint(Split::train) != before);
}
