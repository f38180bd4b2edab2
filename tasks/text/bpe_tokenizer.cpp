// BpeTokenizer: cuts text into what SentencePiece may see and single bytes, and trains it quietly.
#include "tasks/text/bpe_tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <regex>
#include <unordered_map>

#include "core/error.h"
#include "core/random.h"
#include "tasks/text/utf8.h"

namespace copylab::text {
namespace {

constexpr const char* kSpaceSymbol = "\xE2\x96\x81";  // U+2581, how SentencePiece spells a space

// Characters that are not for SentencePiece: it would drop them or give back something else.
bool is_reserved(uint32_t c) {
  return c < 0x20 || c == 0x7F || c == 0x2581 || c == 0x2585;
}

// Calls run(text) for each longest run of characters that SentencePiece may see, byte(b) for what lies
// between.
template <class Run, class Byte>
void cut(std::string_view text, Run run, Byte byte) {
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8 c = decode_utf8(text.substr(i));
    if (c.valid && !is_reserved(c.code)) {
      i += c.size;
      continue;
    }
    if (i > begin) run(text.substr(begin, i - begin));
    for (size_t k = 0; k < c.size; ++k) byte(static_cast<uint8_t>(text[i + k]));
    i += c.size;
    begin = i;
  }
  if (text.size() > begin) run(text.substr(begin));
}

class Lines : public sentencepiece::SentenceIterator {
 public:
  bool done() const override { return next_ >= lines.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

  std::vector<std::string> lines;

 private:
  size_t next_ = 0;
};

}  // namespace

std::string BpeTokenizer::train(const std::vector<std::string>& training, int64_t vocab) {
  constexpr size_t kMost = 64 << 20;  // bytes
  size_t bytes = 0, line = 0;
  for (const std::string& document : training) bytes += document.size();
  const size_t every = (bytes + kMost - 1) / kMost;
  Lines sample;
  for (const std::string& document : training)
    cut(
        document,
        [&](std::string_view run) {
          if (line++ % every == 0) sample.lines.emplace_back(run);
        },
        [](uint8_t) {});
  expect(!sample.lines.empty(), "text", "the training text has no printable UTF-8 to learn bpe from");

  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab)},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9995"},  // the rarest characters are spelled in bytes
      {"unk_id", "0"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      {"num_threads", "1"},
      {"max_sentence_length", "1073741824"},
      {"minloglevel", "3"},
  };
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &sample, &model);
  if (status.ok()) return model;
  std::smatch number;
  const std::string message = status.ToString();
  static const std::regex kTooSmall("smaller than required_chars\\. \\d+ vs (\\d+)"),
      kTooLarge("<= (\\d+)\\.");
  if (std::regex_search(message, number, kTooSmall))
    throw Error(fmt::format(
        "[text] task.vocab of at least {} expected: the bytes and characters of the training text "
        "need as many ids: got {}",
        number.str(1), vocab));
  if (std::regex_search(message, number, kTooLarge))
    throw Error(fmt::format(
        "[text] task.vocab of at most {} expected: the training text gives no more pieces: got {}",
        number.str(1), vocab));
  throw Error("[text] SentencePiece: " + message);
}

BpeTokenizer::BpeTokenizer(const std::string& model)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()), key_(hash_name(model)) {
  const auto status = processor_->LoadFromSerializedProto(model);
  expect(status.ok(), "text", "a SentencePiece model expected: {}", status.ToString());
  const std::string symbol = kSpaceSymbol;
  for (int id = 0; id < processor_->GetPieceSize(); ++id) {
    std::string piece = processor_->IdToPiece(id);
    if (processor_->IsByte(id)) {  // "<0x0A>"
      const int byte = std::stoi(piece.substr(3, 2), nullptr, 16);
      byte_ids_[byte] = id;
      piece = std::string(1, static_cast<char>(byte));
    }
    for (size_t at; (at = piece.find(symbol)) != std::string::npos;) piece.replace(at, symbol.size(), " ");
    pieces_.push_back(std::move(piece));
  }
}

BpeTokenizer::~BpeTokenizer() = default;

void BpeTokenizer::encode(std::string_view document, Tokens& out) const {
  std::vector<int> ids;
  cut(
      document,
      [&](std::string_view run) {
        const auto status = processor_->Encode({run.data(), run.size()}, &ids);
        expect(status.ok(), "text", "SentencePiece: {}", status.ToString());
        out.ids.insert(out.ids.end(), ids.begin(), ids.end());
      },
      [&](uint8_t byte) { out.ids.push_back(byte_ids_[byte]); });
}

}  // namespace copylab::text
