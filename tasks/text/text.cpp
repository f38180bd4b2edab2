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
//
// With task.meta_rate k > 0, M = round(kT) of the T positions hold meta-tokens, at random places or one in
// every 1/k, and a window is R = T - M tokens of the text (Shah et al. 2025, arXiv 2509.16278, with the total
// length kept constant). Drawn for T = 8, k = 1/4:
//
//   tokens   <eos>   =  _P_      Robert  Boulter  _P_  =      <eos>
//   targets  =       .  Robert   Boulter .        =    <eos>  <eos>     no position is asked for a meta-token
//
// Each target of the text is asked for once: by the position before it, which may be a meta-token, or with
// task.predict_from_meta off by the token of the text before it. So runs with and without meta-tokens, and
// with either kind of labels, are asked for the same targets of the same windows; task.meta_placement = none
// leaves the places of meta-tokens empty, at the end, and is what they compare with.
//
// With task.lanes the split is read as that many contiguous streams instead (lanes.h), across documents:
// batch i holds the i-th stretch of T positions of each, in order, and a model may carry its state on. With
// task.advance A < T a training stretch overlaps the one before by T - A positions, which are read again and
// not labelled again. Two lanes of ten targets, T = 6, A = 2:
//
//   batch 0: targets 1 2 3 4 5 6 | 11 12 …   batch 1: . . . . 7 8 | . . . . 17 18   batch 2: . . . . 9 10 | …
#include "tasks/text/text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "tasks/distinct.h"
#include "tasks/prompts/alphabet.h"
#include "tasks/text/content.h"
#include "tasks/text/corpus.h"
#include "tasks/text/encoded_text.h"
#include "tasks/text/lanes.h"
#include "tasks/text/utf8.h"
#include "tasks/text/windows.h"

namespace copylab {
namespace {

enum Slice : int32_t { kCopyable, kNew };

class TextTask : public Task {
 public:
  explicit TextTask(const Settings& settings)
      : length_(settings.integer("task.length")),
        advance_(settings.integer("task.advance") ? settings.integer("task.advance") : length_),
        recent_(settings.integer("task.recent")),
        metas_(std::llround(settings.real("task.meta_rate") * static_cast<double>(length_))),
        placement_(settings.text("task.meta_placement")),
        label_metas_(settings.flag("task.meta_loss")),
        predict_from_meta_(settings.flag("task.predict_from_meta")),
        kept_(settings.flag("task.symbols") ? Alphabet::kReserved : 0),
        name_(settings.text("task.path")) {
    expect(metas_ == 0 || kept_ > 0, "text",
           "task.meta_rate needs task.symbols: the meta-token's id is kept by it");
    expect(metas_ < length_, "text", "task.meta_rate of less than 1 - 1/(2 task.length) expected: got {}",
           settings.real("task.meta_rate"));
    expect(!label_metas_ || predict_from_meta_, "text",
           "task.meta_loss needs task.predict_from_meta: a position is asked for one target");
    const int64_t vocab = settings.integer("task.vocab");
    expect(vocab == 0 || vocab > kept_, "text",
           "task.vocab above the {} ids that task.symbols keeps expected: got {}", kept_, vocab);
    if (name_.empty()) name_ = settings.text("task.corpus");
    const std::string& test_corpus = settings.text("task.test_corpus");
    text::expect_content(name_, test_corpus, settings.text("task.content"));
    text_ = text::encoded_text({.corpus = name_,
                                .test_corpus = test_corpus,
                                .level = settings.text("task.level"),
                                .vocab = vocab == 0 ? 0 : vocab - kept_,
                                .content = settings.text("task.content")});
    const int64_t lanes = settings.integer("task.lanes");
    expect(lanes == 0 || metas_ == 0, "text", "task.meta_rate needs sequences: task.lanes = 0");
    expect(lanes == 0 || !settings.flag("task.cross_documents"), "text",
           "task.cross_documents = true needs sequences: streams (task.lanes = {}) cross documents anyway",
           lanes);
    expect(lanes > 0 || advance_ == length_, "text", "task.advance = {} needs streams: set task.lanes",
           advance_);
    for (const Split split : {Split::train, Split::valid, Split::test}) {
      if (lanes > 0) {
        lanes_.emplace_back(static_cast<int64_t>(text_->split(split).tokens.ids.size()), lanes, length_,
                            split == Split::train ? advance_ : length_);
        continue;
      }
      std::vector<int64_t> starts = text_->split(split).starts;
      if (settings.flag("task.cross_documents")) starts = {starts.front(), starts.back()};
      windows_.emplace_back(starts, length_ - metas_, split == Split::train);
      expect(windows_.back().size() > 0, "text",
             "{}: a document of at least two tokens expected in the {} split", name_, name_of(split));
    }
  }

  int64_t vocab() const override { return text_->tokenizer->vocab() + kept_; }
  int32_t meta_token() const override { return metas_ > 0 && placement_ != "none" ? meta_id() : -1; }
  int64_t length() const override { return length_; }
  int64_t lanes() const override { return lanes_.empty() ? 0 : lanes_.front().lanes(); }

  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override {
    if (lanes() > 0) return stretch(split, seed, index, rows);
    Batch b = blank_batch(rows, length_);
    b.slice.assign(b.slice.size(), kNew);
    b.bytes.assign(b.slice.size(), 0);
    const text::TokenStream& stream = text_->split(split);
    if (metas_ > 0) b.meta.assign(b.slice.size(), 0);
    std::vector<int64_t> seen(vocab(), -1);  // the last row in which each id was read
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t n = index * rows + row, cell = row * length_;
      const auto window = window_of(split, seed, n);
      if (!window) continue;
      const std::vector<bool> meta = places_of_metas(split, seed, n);
      int64_t read = 0;  // tokens of the text so far
      for (int64_t t = 0; t < length_ && (meta[t] || read < window->count); ++t) {
        b.tokens[cell + t] = meta[t] ? meta_id() : stream.tokens.ids[window->first + read];
        if (meta[t]) b.meta[cell + t] = 1;
        if (!meta[t]) ++read, seen[b.tokens[cell + t]] = row;
        const bool before_meta = t + 1 < length_ && meta[t + 1];
        if (before_meta && label_metas_ && split == Split::train) b.targets[cell + t] = meta_id();
        if (read == 0 || (predict_from_meta_ ? before_meta : meta[t])) continue;
        const int64_t target = window->first + read;
        b.targets[cell + t] = stream.tokens.ids[target];
        b.bytes[cell + t] = text_->bytes(stream, target);
        b.slice[cell + t] = seen[b.targets[cell + t]] == row ? kCopyable : kNew;
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
    const auto add = [&](std::string_view part) {
      const size_t before = tokens.ids.size();
      text_->tokenizer->encode(part, tokens);
      // At word level a last line without a newline gets its <eos>, which nobody typed.
      if (!part.empty() && tokens.ids.size() > before && part.back() != '\n' &&
          text_->tokenizer->text(tokens.ids.back()) == "\n")
        tokens.ids.pop_back();
    };
    size_t begin = 0;
    if (metas_ > 0) {
      const std::string mark = spelling(meta_id());
      for (size_t end; (end = prompt.find(mark, begin)) != std::string::npos; begin = end + mark.size()) {
        add(std::string_view(prompt).substr(begin, end - begin));
        tokens.ids.push_back(meta_id());
      }
    }
    add(std::string_view(prompt).substr(begin));
    return tokens.ids;
  }
  std::string text_of(const std::vector<int32_t>& tokens) const override {
    std::string all;
    for (const int32_t id : tokens) all += spelling(id);
    return all;
  }

  std::vector<std::pair<std::string, double>> budget(int64_t sequences) const override {
    if (lanes() > 0) {
      const text::Lanes& train = lanes_[static_cast<size_t>(Split::train)];
      const double passes =
          static_cast<double>(sequences) / static_cast<double>(train.lanes() * train.stretches());
      return {{"epochs", passes}, {"labels", passes * static_cast<double>(train.targets())}};
    }
    const text::Windows& windows = windows_[static_cast<size_t>(Split::train)];
    const double epochs = static_cast<double>(sequences) / static_cast<double>(windows.size());
    return {{"epochs", epochs}, {"labels", epochs * static_cast<double>(windows.targets())}};
  }

 private:
  int32_t meta_id() const { return Alphabet(vocab()).meta(); }
  std::string spelling(int32_t id) const {
    return id < vocab() - kept_ ? text_->tokenizer->text(id) : Alphabet(vocab()).text(id);
  }

  // Which of the T positions of sequence n hold meta-tokens.
  std::vector<bool> places_of_metas(Split split, uint64_t seed, int64_t n) const {
    std::vector<bool> places(length_, false);
    if (placement_ == "random") {
      const Random random(split == Split::train ? seed : 0, std::string("text.meta.") + name_of(split),
                          static_cast<uint64_t>(n));
      for (const int32_t t : draw_distinct(random, 0, metas_, 0, length_)) places[t] = true;
    } else if (placement_ == "periodic") {
      for (int64_t i = 0; i < metas_; ++i) places[(2 * i + 1) * length_ / (2 * metas_)] = true;
    }
    return places;
  }

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

  // Stretch `index` of every lane; validation and test have none past their end.
  Batch stretch(Split split, uint64_t seed, int64_t index, int64_t rows) const {
    const text::Lanes& lanes = lanes_[static_cast<size_t>(split)];
    expect(rows == lanes.lanes(), "text", "batches of task.lanes = {} rows expected: got {}", lanes.lanes(),
           rows);
    Batch b = blank_batch(rows, length_);
    b.slice.assign(b.slice.size(), kNew);
    b.bytes.assign(b.slice.size(), 0);
    b.advance = lanes.advance();
    int64_t turn = 0;
    if (split == Split::train) {
      const int64_t epoch = index / lanes.stretches();
      index %= lanes.stretches();
      turn = lanes.draw_turn(Random(seed, "text.turn.train", static_cast<uint64_t>(epoch)));
    }
    b.fresh = index == 0;
    const text::TokenStream& stream = text_->split(split);
    const std::vector<int32_t>& ids = stream.tokens.ids;
    std::vector<int64_t> seen(vocab(),
                              -1);  // when each id was last read; places of different rows are far apart
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = lanes.first(index), size = lanes.size(row);
      const int64_t begin = std::max<int64_t>(0, first - recent_ + 1),
                    base = row * (lanes.targets() + recent_);
      for (int64_t place = begin; place < std::min(first + length_, size); ++place) {
        const int64_t target = lanes.target(row, place, turn), t = place - first;
        seen[ids[target - 1]] = base + place;
        if (t < 0) continue;
        const int64_t cell = row * length_ + t;
        b.tokens[cell] = ids[target - 1];
        if (place < lanes.fresh(index)) continue;
        b.targets[cell] = ids[target];
        b.bytes[cell] = text_->bytes(stream, target);
        const int64_t last = seen[ids[target]];
        b.slice[cell] = last >= base + begin && last > base + place - recent_ ? kCopyable : kNew;
      }
    }
    return b;
  }

  int64_t length_, advance_, recent_, metas_;  // T, A, tokens, M
  std::string placement_;
  bool label_metas_, predict_from_meta_;
  int64_t kept_;  // ids behind those of the text
  std::string name_;
  std::shared_ptr<const text::EncodedText> text_;
  std::vector<text::Windows> windows_;  // by split, without lanes
  std::vector<text::Lanes> lanes_;      // by split, with lanes
};

// The text on lines of 96 characters, with ^ below the targets that are copyable. ⏎ is a newline, ? another
// control character or a byte that is no character.
std::string TextTask::show(const Batch& batch, int64_t row) const {
  constexpr int64_t kWidth = 96;
  std::string all, marks;  // marks: one character for each byte of `all`
  const auto add = [&](int32_t id, bool marked) {
    all += spelling(id);
    marks.resize(all.size(), marked ? '^' : ' ');
  };
  const auto first = batch.targets.begin() + row * batch.length;
  int64_t end = batch.length;  // of what is read
  while (end > 0 && first[end - 1] < 0) --end;
  bool copyable = false;  // the next token of the text
  int32_t last = -1;
  for (int64_t t = 0; t < end; ++t) {
    const int64_t cell = row * batch.length + t;
    const bool meta = !batch.meta.empty() && batch.meta[cell] != 0;
    add(batch.tokens[cell], !meta && copyable);
    if (batch.targets[cell] < 0 || (kept_ > 0 && batch.targets[cell] == meta_id())) continue;
    copyable = batch.slice[cell] == kCopyable;
    last = batch.targets[cell];
  }
  if (last >= 0) add(last, copyable);
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
      {.path = "task.symbols",
       .fallback = false,
       .doc = "keep the last 41 of the V ids for the symbols of the meta-token tasks, and for the meta-token",
       .later = true},
      {.path = "task.meta_rate",
       .fallback = 0.0,
       .doc = "share k of the T positions that hold meta-tokens; the text has the others",
       .min = 0,
       .max = 1,
       .later = true},
      {.path = "task.meta_placement",
       .fallback = std::string("random"),
       .doc = "where meta-tokens stand; none: the same text without them, their room left empty at the end",
       .choices = {"random", "periodic", "none"},
       .later = true},
      {.path = "task.meta_loss",
       .fallback = false,
       .doc = "train on meta-tokens as targets, too; they never count in evaluations",
       .later = true},
      {.path = "task.predict_from_meta",
       .fallback = true,
       .doc =
           "a token of the text is predicted where the one before it stands, be it a meta-token; false: by "
           "the last token of the text",
       .later = true},
      {.path = "task.lanes",
       .fallback = int64_t{0},
       .doc = "read each split as this many contiguous streams side by side, across documents; 0 = as "
              "independent windows",
       .min = 0,
       .max = 1 << 20,
       .later = true},
      {.path = "task.advance",
       .fallback = int64_t{0},
       .doc = "lanes: positions by which training streams move on per batch, only new ones being labelled; 0 "
              "= T",
       .min = 0,
       .max = 1 << 20,
       .later = true},
      {.path = "task.recent",
       .fallback = int64_t{100},
       .doc = "lanes: a target is copyable if it is among this many tokens read last",
       .min = 1,
       .max = 1 << 20,
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
          {{"task.level", std::string("word")}, {"task.vocab", int64_t{8192}}, {"task.length", int64_t{32}}},
          {{"task.vocab", int64_t{1024}}, {"task.symbols", true}, {"task.meta_rate", 0.1}},
          {{"task.corpus", std::string("tinyshakespeare")},
           {"task.level", std::string("byte")},
           {"task.symbols", true},
           {"task.meta_rate", 0.25},
           {"task.meta_placement", std::string("periodic")},
           {"task.predict_from_meta", false}},
          {{"task.lanes", int64_t{20}}, {"task.length", int64_t{35}}, {"task.advance", int64_t{30}}}};
}

}  // namespace

const TaskEntry text_task = {
    "text",  "the next byte, word or bpe piece of WikiText-2, novels or your own text",
    1,       fields,
    make,    variants,
    complete};

}  // namespace copylab
