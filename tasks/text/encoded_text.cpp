// EncodedText: corpus, tokenizer and the two caches, in memory and on disk.
#include "tasks/text/encoded_text.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "tasks/text/bpe_tokenizer.h"
#include "tasks/text/byte_tokenizer.h"
#include "tasks/text/cache.h"
#include "tasks/text/corpus.h"
#include "tasks/text/word_tokenizer.h"

namespace copylab::text {
namespace {

// Part of the names in the cache: raise it when documents, cutting or SentencePiece's options change.
constexpr int kCacheVersion = 1;

std::shared_ptr<const Tokenizer> bpe_tokenizer(const Corpus& corpus, int64_t vocab) {
  const std::string name =
      fmt::format("bpe-v{}-{:016x}-{}.model", kCacheVersion, corpus.fingerprint(Split::train), vocab);
  std::optional<std::string> model = read_cache(name);
  if (!model) {
    model = BpeTokenizer::train(corpus.documents(Split::train), vocab);
    write_cache(name, *model);
  }
  return std::make_shared<BpeTokenizer>(*model);
}

std::shared_ptr<const Tokenizer> make_tokenizer(const TextSource& source, const Corpus& corpus) {
  if (source.level == "byte") {
    expect(source.vocab == 0 || source.vocab == 256, "text", "task.vocab 256 expected at byte level: got {}",
           source.vocab);
    return std::make_shared<ByteTokenizer>();
  }
  if (source.level == "word")
    return std::make_shared<WordTokenizer>(corpus.documents(Split::train), source.vocab);
  expect(source.level == "bpe", "text", "task.level byte, word or bpe expected: got {}", source.level);
  return bpe_tokenizer(corpus, source.vocab == 0 ? 4096 : source.vocab);
}

template <class T>
void append(std::string& out, const std::vector<T>& values) {
  const uint64_t count = values.size();
  out.append(reinterpret_cast<const char*>(&count), sizeof(count));
  out.append(reinterpret_cast<const char*>(values.data()), count * sizeof(T));
}

template <class T>
std::vector<T> take(const char*& from) {
  uint64_t count = 0;
  std::memcpy(&count, from, sizeof(count));
  std::vector<T> values(count);
  std::memcpy(values.data(), from + sizeof(count), count * sizeof(T));
  from += sizeof(count) + count * sizeof(T);
  return values;
}

TokenStream encode(const Corpus& corpus, Split split, const Tokenizer& tokenizer) {
  TokenStream stream;
  std::string name;
  if (tokenizer.cache_key() != 0) {
    name = fmt::format("ids-v{}-{:016x}-{:016x}", kCacheVersion, tokenizer.cache_key(),
                       corpus.fingerprint(split));
    if (const auto kept = read_cache(name)) {
      const char* from = kept->data();
      stream.tokens.ids = take<int32_t>(from);
      stream.starts = take<int64_t>(from);
      return stream;
    }
  }
  for (const std::string& document : corpus.documents(split)) {
    stream.starts.push_back(static_cast<int64_t>(stream.tokens.ids.size()));
    tokenizer.encode(document, stream.tokens);
  }
  stream.starts.push_back(static_cast<int64_t>(stream.tokens.ids.size()));
  if (!name.empty()) {
    std::string content;
    append(content, stream.tokens.ids);
    append(content, stream.starts);
    write_cache(name, content);
  }
  return stream;
}

std::shared_ptr<const EncodedText> read_and_encode(const TextSource& source) {
  auto text = std::make_shared<EncodedText>();
  const Corpus corpus(source.corpus);
  text->tokenizer = make_tokenizer(source, corpus);
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    const bool other = split == Split::test && !source.test_corpus.empty();
    text->splits[static_cast<size_t>(split)] =
        encode(other ? Corpus(source.test_corpus) : corpus, split, *text->tokenizer);
  }
  for (int64_t id = 0; id < text->tokenizer->vocab(); ++id)
    text->bytes_of_id.push_back(static_cast<int32_t>(text->tokenizer->text(static_cast<int32_t>(id)).size()));
  return text;
}

}  // namespace

std::shared_ptr<const EncodedText> encoded_text(const TextSource& source) {
  constexpr size_t kKept = 4;
  static std::mutex mutex;
  static std::deque<std::pair<TextSource, std::shared_ptr<const EncodedText>>> kept;  // newest first
  const std::lock_guard lock(mutex);
  for (const auto& [known, text] : kept)
    if (known == source) return text;
  kept.emplace_front(source, read_and_encode(source));
  if (kept.size() > kKept) kept.pop_back();
  return kept.front().second;
}

}  // namespace copylab::text
