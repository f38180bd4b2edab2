// Tokenizer: text to token ids and back, at the level of bytes, words or byte-pair encoding.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace copylab::text {

// Consecutive tokens of one or more documents.
struct Tokens {
  std::vector<int32_t> ids;
  // Bytes of the original text that each token stands for, or empty: then it is text(id).size().
  std::vector<int32_t> bytes;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocab() const = 0;  // V: ids are 0..V-1
  // Appends the tokens of a document. The bytes that they stand for sum to those of the document.
  virtual void encode(std::string_view document, Tokens& out) const = 0;
  // What a token stands for. At byte and bpe level the texts of a document's tokens, joined, are the
  // document.
  virtual std::string text(int32_t id) const = 0;
  // For results of encode() that are worth keeping on disk: changes when they change. 0: not worth it.
  virtual uint64_t cache_key() const { return 0; }
};

}  // namespace copylab::text
