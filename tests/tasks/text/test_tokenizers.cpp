// Tokenizers: the standard counts of WikiText-2, words by hand, bytes that add up, and bpe without loss.
#include <filesystem>
#include <numeric>

#include "core/random.h"
#include "tasks/text/bpe_tokenizer.h"
#include "tasks/text/byte_tokenizer.h"
#include "tasks/text/corpus.h"
#include "tasks/text/utf8.h"
#include "tasks/text/word_tokenizer.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using namespace copylab::text;
using copylab::testing::contains;
using copylab::testing::message_of;

namespace {

using Ids = std::vector<int32_t>;

Tokens encoded(const Tokenizer& tokenizer, const std::string& text) {
  Tokens tokens;
  tokenizer.encode(text, tokens);
  return tokens;
}

std::string decoded(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const int32_t id : ids) text += tokenizer.text(id);
  return text;
}

int64_t sum(const Ids& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

// One tokenizer for all tests: learnt from a novel's beginning, and a few characters besides.
const BpeTokenizer& bpe() {
  static const BpeTokenizer tokenizer(BpeTokenizer::train(
      {Corpus("novels").documents(Split::valid)[0].substr(0, 100000), "na\xC3\xAFve caf\xC3\xA9\n"}, 600));
  return tokenizer;
}

}  // namespace

TEST_CASE("words of WikiText-2 are the standard tokens", "[text]") {
  const Corpus corpus("wikitext-2");
  const WordTokenizer words(corpus.documents(Split::train), 0);
  CHECK(words.vocab() == 33278);
  const struct {
    Split split;
    int64_t tokens, unknown, bytes;
  } standard[] = {{Split::train, 2088628, 54625, 10797148},
                  {Split::valid, 217646, 11718, 1121681},
                  {Split::test, 245569, 15218, 1256449}};
  for (const auto& s : standard) {
    Tokens tokens;
    for (const std::string& document : corpus.documents(s.split)) words.encode(document, tokens);
    CHECK(static_cast<int64_t>(tokens.ids.size()) == s.tokens);
    CHECK(std::count(tokens.ids.begin(), tokens.ids.end(), WordTokenizer::kUnknown) == s.unknown);
    CHECK(sum(tokens.bytes) == s.bytes);
  }
  CHECK(words.word(2) == "the");
}

TEST_CASE("words by hand", "[text]") {
  const WordTokenizer words({"b a b\n", " c\t a  b\r\n"}, 0);  // b 3, a 2, c 1
  CHECK(words.vocab() == 5);
  CHECK((words.word(2) == "b" && words.word(3) == "a" && words.word(4) == "c"));
  const Tokens tokens = encoded(words, " a  new\r\n\n b<unk>  <unk> c");
  CHECK(tokens.ids == Ids{3, 0, 1, 1, 0, 0, 4, 1});
  CHECK(tokens.bytes == Ids{4, 5 - 1, 1, 2, 8, 6, 1, 0});
  CHECK(decoded(words, tokens.ids) == "a <unk> \n\n<unk> <unk> c \n");
  CHECK(encoded(words, "").ids.empty());
  CHECK(encoded(words, "\n").bytes == Ids{1});

  // Words beyond V are unknown; of equally frequent ones the first in byte order stays.
  const WordTokenizer few({"z y x y\n"}, 4);
  CHECK(encoded(few, "x y z w").ids == Ids{3, 2, 0, 0, 1});
  CHECK(sum(encoded(few, "x yyyy z w").bytes) == 10);
  CHECK(
      message_of([] { WordTokenizer({"a b\n"}, 5); }) ==
      "[text] task.vocab of 3 to 4 expected at word level (the training text's words, <unk> and <eos>), or 0 "
      "for all: got 5");
  // Bytes that are no UTF-8 are parts of words.
  CHECK(encoded(WordTokenizer({"\xFF\xFE a\n"}, 0), "\xFF\xFE").ids[0] > 1);
}

TEST_CASE("bytes are themselves", "[text]") {
  const ByteTokenizer bytes;
  CHECK(bytes.vocab() == 256);
  const std::string text("a\0\xFF\r\n", 5);
  CHECK(encoded(bytes, text).ids == Ids{'a', 0, 255, '\r', '\n'});
  CHECK(decoded(bytes, encoded(bytes, text).ids) == text);
}

TEST_CASE("bpe loses no byte of any text", "[text]") {
  std::vector<std::string> texts = {
      "",
      "\n",
      " leading and  double   spaces \n\n  \n",
      "tab\there\r\n\r\nCRLF\r\n",
      std::string("NUL\0NUL", 7),
      "\xE2\x96\x81 is kept for spaces, \xE2\x96\x85 for the unknown, <unk> and <0x0A> are plain text",
      "na\xC3\xAFve caf\xC3\xA9 \xF0\x9F\x98\x80 \xE4\xB8\xAD\xE6\x96\x87 \xEF\xBF\xBD \xEF\xBB\xBF",
      "cut \xE2\x96 off \xC3",
      "overlong \xC0\xAF surrogate \xED\xA0\x80 beyond \xF4\x90\x80\x80 lone \x80\xFF",
      Corpus("tinyshakespeare").documents(Split::test)[0],
  };
  const Random random(1, "test.bytes");
  std::string noise;
  for (uint64_t i = 0; i < 20000; ++i) noise += static_cast<char>(random.below(i, 256));
  texts.push_back(noise);
  for (const std::string& text : texts) {
    const Tokens tokens = encoded(bpe(), text);
    CHECK(decoded(bpe(), tokens.ids) == text);
    CHECK(std::count(tokens.ids.begin(), tokens.ids.end(), 0) == 0);  // <unk>
  }
  // It is no byte code: Shakespeare takes far fewer tokens than bytes.
  CHECK(encoded(bpe(), texts[9]).ids.size() < 0.6 * texts[9].size());
  CHECK(bpe().vocab() == 600);
}

TEST_CASE("bpe training is deterministic and says which sizes are possible", "[text]") {
  const std::vector<std::string> text = {"the cat and the hat\nthe cat sat\n"};
  // 1 <unk>, 256 bytes, and the characters: space and eight letters.
  const std::string model = BpeTokenizer::train(text, 270);
  CHECK(BpeTokenizer::train(text, 270) == model);
  CHECK(BpeTokenizer(model).cache_key() == BpeTokenizer(model).cache_key());
  const std::string small = message_of([&] { BpeTokenizer::train(text, 10); });
  CHECK(small ==
        "[text] task.vocab of at least 266 expected: the bytes and characters of the training text need as "
        "many "
        "ids: got 10");
  CHECK(BpeTokenizer(BpeTokenizer::train(text, 266)).vocab() == 266);
  const std::string large = message_of([&] { BpeTokenizer::train(text, 5000); });
  CHECK(contains(large, "[text] task.vocab of at most 2"));
  CHECK(contains(large, "got 5000"));
  CHECK(contains(message_of([] { BpeTokenizer::train({"\xFF\xFE\n"}, 300); }), "no printable UTF-8"));
  CHECK(contains(message_of([] { BpeTokenizer("not a model"); }), "a SentencePiece model expected"));
}

TEST_CASE("UTF-8 is decoded strictly", "[text]") {
  const auto code = [](std::string_view text) {
    const Utf8 c = decode_utf8(text);
    return c.valid && c.size == text.size() ? static_cast<int64_t>(c.code) : -1;
  };
  CHECK(code("a") == 'a');
  CHECK(code("\xC2\x80") == 0x80);
  CHECK(code("\xE0\xA0\x80") == 0x800);
  CHECK(code("\xF0\x90\x80\x80") == 0x10000);
  CHECK(code("\xF4\x8F\xBF\xBF") == 0x10FFFF);
  for (const char* bad : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x96", "\xC3 "})
    CHECK(!decode_utf8(bad).valid);
}
