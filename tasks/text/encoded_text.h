// EncodedText: a corpus as token ids, with the tokenizer that made them; read once per process.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tasks/task.h"
#include "tasks/text/tokenizer.h"

namespace copylab::text {

// The tokens of a split, document after document.
struct TokenStream {
  Tokens tokens;
  std::vector<int64_t> starts;  // index of each document's first token, then the number of tokens
};

struct EncodedText {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::array<TokenStream, 3> splits;
  std::vector<int32_t> bytes_of_id;  // (V), for streams whose tokens have no bytes of their own

  const TokenStream& split(Split which) const { return splits[static_cast<size_t>(which)]; }
  // Bytes of the text that token i of a split stands for.
  int32_t bytes(const TokenStream& stream, int64_t i) const {
    return stream.tokens.bytes.empty() ? bytes_of_id[stream.tokens.ids[i]] : stream.tokens.bytes[i];
  }
};

struct TextSource {
  std::string corpus;        // what the tokenizer is made from, and the text of all splits (Corpus)
  std::string test_corpus;   // if not empty, the test split is that of this corpus
  std::string level;         // byte, word or bpe
  int64_t vocab = 0;         // 0: 256 bytes, all words, or 4096 pieces
  std::string content = {};  // of the user's files (content.h): a changed text is another source

  bool operator==(const TextSource&) const = default;
};

// Reads, makes the tokenizer from the training split alone, and encodes. The last few results are kept in
// memory, since planning and training ask for the same text again and again; bpe models and ids are kept on
// disk (cache.h). Throws Error for whatever is wrong with files or sizes.
std::shared_ptr<const EncodedText> encoded_text(const TextSource& source);

}  // namespace copylab::text
