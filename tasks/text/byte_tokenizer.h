// ByteTokenizer: every byte is a token.
#pragma once

#include "tasks/text/tokenizer.h"

namespace copylab::text {

class ByteTokenizer : public Tokenizer {
 public:
  int64_t vocab() const override { return 256; }
  void encode(std::string_view document, Tokens& out) const override {
    for (const char c : document) out.ids.push_back(static_cast<uint8_t>(c));
  }
  std::string text(int32_t id) const override { return {static_cast<char>(id)}; }
};

}  // namespace copylab::text
