// Alphabet: the ids that the prompts of the meta-token tasks share with texts that meta-tokens are put into.
#pragma once

#include <cstdint>
#include <string>

namespace copylab {

// Of V ids the last kReserved are kept: 32 numbers, eight symbols, and the meta-token. The others are words.
// A model that was trained on text with task.symbols reads prompts with the same embedding.
//
//   0 .. W-1   words, W = V - 41: pieces, words or bytes of a text; any ids of a prompt
//   W + n      the number n, 0 <= n < 32
//   W + 32 ..  : ; ? = [ ] # L
//   V - 1      the meta-token, written _P_ (_PAUSE_ in the paper)
class Alphabet {
 public:
  enum class Symbol { colon, semicolon, question, equals, open, close, count, list };
  static constexpr int64_t kNumbers = 32, kSymbols = 8, kReserved = kNumbers + kSymbols + 1;

  explicit Alphabet(int64_t vocab) : words_(vocab - kReserved) {}

  int64_t vocab() const { return words_ + kReserved; }
  int64_t words() const { return words_; }
  int32_t number(int64_t n) const { return static_cast<int32_t>(words_ + n); }
  int32_t symbol(Symbol s) const { return static_cast<int32_t>(words_ + kNumbers + static_cast<int64_t>(s)); }
  int32_t meta() const { return static_cast<int32_t>(words_ + kReserved - 1); }

  bool is_word(int32_t id) const { return id < words_; }
  bool is_number(int32_t id) const { return id >= words_ && id < words_ + kNumbers; }
  int64_t value(int32_t number) const { return number - words_; }
  // "7", ":", "_P_"; a word is "w" and its id.
  std::string text(int32_t id) const;

 private:
  int64_t words_;
};

}  // namespace copylab
