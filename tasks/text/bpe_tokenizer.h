// BpeTokenizer: byte-pair encoding (Sennrich et al. 2016) by SentencePiece, without loss of a single byte.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tasks/text/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace copylab::text {

// Ids are SentencePiece's: 0 is <unk>, which never occurs; 1..256 are single bytes; then merges and
// characters. Pieces never cross a line. Newlines, other control characters, invalid UTF-8 and the two
// characters that SentencePiece keeps for itself (U+2581, U+2585) become single bytes before it sees them.
class BpeTokenizer : public Tokenizer {
 public:
  // The serialized model with `vocab` pieces for a text: deterministic, on one thread. Texts above 64 MB are
  // thinned to every n-th line. Throws Error with the possible range if the text cannot give `vocab` pieces.
  static std::string train(const std::vector<std::string>& training, int64_t vocab);

  // Throws Error if `model` is not one of SentencePiece.
  explicit BpeTokenizer(const std::string& model);
  ~BpeTokenizer() override;

  int64_t vocab() const override { return static_cast<int64_t>(pieces_.size()); }
  void encode(std::string_view document, Tokens& out) const override;
  std::string text(int32_t id) const override { return pieces_.at(id); }
  uint64_t cache_key() const override { return key_; }

 private:
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<std::string> pieces_;  // what each id stands for
  int32_t byte_ids_[256];
  uint64_t key_;
};

}  // namespace copylab::text
