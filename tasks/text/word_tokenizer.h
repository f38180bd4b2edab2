// WordTokenizer: words between white space, and one <eos> a line; rare or unseen words are <unk>.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tasks/text/tokenizer.h"

namespace copylab::text {

// Ids: 0 <unk>, 1 <eos>, then the words of the training text from the most frequent on (equally frequent ones
// in the order of their bytes). White space is ASCII's. A last line without newline gets its <eos>, too.
// A token stands for its bytes and all white space up to the next token, also where it became <unk>; white
// space that a document starts with belongs to its first token.
class WordTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kUnknown = 0, kEndOfLine = 1;

  // `vocab`: number of ids V; 0 = as many as the text has words. Throws Error if the text has fewer.
  WordTokenizer(const std::vector<std::string>& training, int64_t vocab);
  WordTokenizer(const WordTokenizer&) = delete;  // ids_ points into words_
  WordTokenizer& operator=(const WordTokenizer&) = delete;

  int64_t vocab() const override { return static_cast<int64_t>(words_.size()); }
  void encode(std::string_view document, Tokens& out) const override;
  std::string text(int32_t id) const override;

  const std::string& word(int32_t id) const { return words_.at(id); }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace copylab::text
