// The text task: predict the next byte, word or piece of real text.
//
// A sequence is a window of T+1 consecutive tokens of one document: the model reads the first T and is asked
// for the last T. Drawn for T = 6 at word level, in a document of ten tokens (two windows):
//
//   tokens   <eos>    =       Robert  Boulter  =      <eos>         <eos>   Robert   Boulter  (0)  (0)  (0)
//   targets  =        Robert  Boulter =        <eos>  <eos>         Robert  Boulter  is        .    .    .
//                                     ^        ^      ^
//
//   ^ = copyable: the target is among the tokens that the model has read    . = no label, after the
//   document's end
//
// The first token of a document is read but never predicted: it has no context. (In WikiText it is the <eos>
// of the empty line before the title.) Training walks over all windows once an epoch, in an order and with a
// shift of the window grid that depend on seed and epoch. Validation and test have one fixed grid and one
// fixed random order, whatever the seed: their first n windows are a fair sample of the split, and rows past
// their last window have no labels, so that no target counts twice however many sequences an evaluation asks
// for.
#include "tasks/text/text.h"

#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "tasks/text/content.h"
#include "tasks/text/corpus.h"
#include "tasks/text/encoded_text.h"
#include "tasks/text/utf8.h"
#include "tasks/text/windows.h"

namespace copylab {
namespace {

enum Slice : int32_t { kCopyable, kNew };

class TextTask : public Task {
 public:
  explicit TextTask(const Settings& settings)
      : length_(settings.integer("task.length")), name_(settings.text("task.path")) {
    if (name_.empty()) name_ = settings.text("task.corpus");
    const std::string& test_corpus = settings.text("task.test_corpus");
    text::expect_content(name_, test_corpus, settings.text("task.content"));
    text_ = text::encoded_text({.corpus = name_,
                                .test_corpus = test_corpus,
                                .level = settings.text("task.level"),
                                .vocab = settings.integer("task.vocab"),
                                .content = settings.text("task.content")});
    for (const Split split : {Split::train, Split::valid, Split::test}) {
      std::vector<int64_t> starts = text_->split(split).starts;
      if (settings.flag("task.cross_documents")) starts = {starts.front(), starts.back()};
      windows_.emplace_back(starts, length_, split == Split::train);
      expect(windows_.back().size() > 0, "text",
             "{}: a document of at least two tokens expected in the {} split", name_, name_of(split));
    }
  }

  int64_t vocab() const override { return text_->tokenizer->vocab(); }
  int64_t length() const override { return length_; }

  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override {
    Batch b = blank_batch(rows, length_);
    b.slice.assign(b.slice.size(), kNew);
    b.bytes.assign(b.slice.size(), 0);
    const text::TokenStream& stream = text_->split(split);
    std::vector<int64_t> seen(vocab(), -1);  // the last row in which each id was read
    for (int64_t row = 0; row < rows; ++row) {
      const auto window = window_of(split, seed, index * rows + row);
      if (!window) continue;
      for (int64_t t = 0; t < window->count; ++t) {
        const int64_t cell = row * length_ + t, target = window->first + t + 1;
        b.tokens[cell] = stream.tokens.ids[target - 1];
        b.targets[cell] = stream.tokens.ids[target];
        b.bytes[cell] = text_->bytes(stream, target);
        seen[b.tokens[cell]] = row;
        b.slice[cell] = seen[b.targets[cell]] == row ? kCopyable : kNew;
      }
    }
    return b;
  }

  bool generated() const override { return false; }
  std::vector<int32_t> solve(const Batch& batch) const override {
    return std::vector<int32_t>(batch.tokens.size(), -1);
  }
  double ceiling() const override { return std::numeric_limits<double>::quiet_NaN(); }
  double chance() const override { return 1.0 / static_cast<double>(vocab()); }
  std::vector<std::string> slices() const override { return {"copyable", "new"}; }

  std::string show(const Batch& batch, int64_t row) const override;

  std::vector<int32_t> tokens_of(const std::string& prompt) const override {
    text::Tokens tokens;
    text_->tokenizer->encode(prompt, tokens);
    // At word level a last line without a newline gets its <eos>, which nobody typed.
    const bool open_line = !prompt.empty() && prompt.back() != '\n';
    if (open_line && !tokens.ids.empty() && text_->tokenizer->text(tokens.ids.back()) == "\n")
      tokens.ids.pop_back();
    return tokens.ids;
  }
  std::string text_of(const std::vector<int32_t>& tokens) const override {
    std::string all;
    for (const int32_t id : tokens) all += text_->tokenizer->text(id);
    return all;
  }

  std::vector<std::pair<std::string, double>> budget(int64_t sequences) const override {
    const text::Windows& windows = windows_[static_cast<size_t>(Split::train)];
    const double epochs = static_cast<double>(sequences) / static_cast<double>(windows.size());
    return {{"epochs", epochs}, {"labels", epochs * static_cast<double>(windows.targets())}};
  }

 private:
  // Sequence n of a split; nothing past the end of validation and test.
  std::optional<text::Windows::Window> window_of(Split split, uint64_t seed, int64_t n) const {
    const text::Windows& windows = windows_[static_cast<size_t>(split)];
    const int64_t size = windows.size();
    if (split != Split::train) {
      const Random order(0, std::string("text.order.") + name_of(split));
      if (n >= size) return {};
      return windows.at(text::permuted(order, n, size), order);
    }
    const auto epoch = static_cast<uint64_t>(n / size);
    const Random order(seed, "text.order.train", epoch), shift(seed, "text.shift.train", epoch);
    return windows.at(text::permuted(order, n % size, size), shift);
  }

  int64_t length_;
  std::string name_;
  std::shared_ptr<const text::EncodedText> text_;
  std::vector<text::Windows> windows_;  // by split
};

// The text on lines of 96 characters, with ^ below the targets that are copyable. ⏎ is a newline, ? another
// control character or a byte that is no character.
std::string TextTask::show(const Batch& batch, int64_t row) const {
  constexpr int64_t kWidth = 96;
  std::string all, marks;  // marks: one character for each byte of `all`
  const auto add = [&](int32_t id, bool marked) {
    all += text_->tokenizer->text(id);
    marks.resize(all.size(), marked ? '^' : ' ');
  };
  for (int64_t t = 0; t < batch.length; ++t) {
    const int64_t cell = row * batch.length + t;
    if (batch.targets[cell] < 0) break;
    if (t == 0) add(batch.tokens[cell], false);
    add(batch.targets[cell], batch.slice[cell] == kCopyable);
  }
  std::string out, line, below;
  int64_t width = 0;
  const auto flush = [&] {
    below.erase(below.find_last_not_of(' ') + 1);
    out += line + "\n" + (below.empty() ? "" : below + "\n");
    line.clear();
    below.clear();
    width = 0;
  };
  for (size_t i = 0; i < all.size();) {
    const text::Utf8 c = text::decode_utf8(std::string_view(all).substr(i));
    const bool control = !c.valid || c.code < 0x20 || c.code == 0x7F;
    line += all[i] == '\n' ? "⏎" : control ? "?" : all.substr(i, c.size);
    below += marks[i];
    i += c.size;
    if (++width == kWidth) flush();
  }
  if (width > 0) flush();
  return out;
}

std::vector<Field> fields() {
  return {
      {.path = "task.corpus",
       .fallback = std::string("wikitext-2"),
       .doc = "text shipped with the project",
       .choices = text::shipped_corpora()},
      {"task.path", std::string(),
       "your own text instead: a file (split 90/5/5), or a folder with train, valid and test files"},
      {"task.test_corpus", std::string(),
       "test on this corpus' test split (a shipped one or a path), with the tokenizer of the training text"},
      {.path = "task.level",
       .fallback = std::string("bpe"),
       .doc = "what a token is",
       .choices = {"byte", "word", "bpe"}},
      {"task.vocab", int64_t{0}, "number of token ids V; 0: 256 bytes, all words, or 4096 bpe pieces", 0,
       1 << 24},
      {"task.length", int64_t{128}, "predicted positions T per sequence", 1, 1 << 20},
      {"task.cross_documents", false, "windows may begin in one document and end in another"},
      {.path = "task.content",
       .fallback = std::string(),
       .doc =
           "hashes of your own text, filled in for new runs: a run belongs to the text that it was made with",
       .later = true},
  };
}

void complete(Settings& settings) {
  for (const char* path : {"task.path", "task.test_corpus"})
    settings.set(path, text::absolute_path(settings.text(path)));
  if (settings.text("task.content").empty())
    settings.set("task.content",
                 text::content_of(settings.text("task.path"), settings.text("task.test_corpus")));
}

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<TextTask>(settings);
}

std::vector<std::vector<std::pair<std::string, Value>>> variants() {
  return {{{"task.corpus", std::string("tinyshakespeare")}, {"task.level", std::string("byte")}},
          {{"task.corpus", std::string("novels")}, {"task.vocab", int64_t{1024}}},
          {{"task.level", std::string("word")}, {"task.vocab", int64_t{8192}}, {"task.length", int64_t{32}}}};
}

}  // namespace

const TaskEntry text_task = {
    "text",  "the next byte, word or bpe piece of WikiText-2, novels or your own text",
    1,       fields,
    make,    variants,
    complete};

}  // namespace copylab
