// WordTokenizer: words between white space, and one <eos> a line; rare or unseen words are <unk>.
#include "tasks/text/word_tokenizer.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace copylab::text {
namespace {

constexpr std::string_view kSpace = " \t\r\v\f";  // besides the newline, which is a token

// Calls token(begin, word) for each token; `word` is "\n" for the end of a line.
template <class Token>
void for_each_token(std::string_view document, Token token) {
  for (size_t i = 0; i < document.size();) {
    if (document[i] == '\n') {
      token(i, document.substr(i, 1));
      ++i;
    } else if (kSpace.find(document[i]) != kSpace.npos) {
      ++i;
    } else {
      const size_t end = std::min(document.find_first_of(" \t\r\v\f\n", i), document.size());
      token(i, document.substr(i, end - i));
      i = end;
    }
  }
  if (!document.empty() && document.back() != '\n') token(document.size(), std::string_view("\n"));
}

}  // namespace

WordTokenizer::WordTokenizer(const std::vector<std::string>& training, int64_t vocab) {
  std::unordered_map<std::string_view, int64_t> counts;
  for (const std::string& document : training)
    for_each_token(document, [&](size_t, std::string_view word) { ++counts[word]; });
  for (const std::string_view special : {"<unk>", "<eos>", "\n"}) counts.erase(special);

  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  const int64_t known = static_cast<int64_t>(sorted.size()) + 2;
  expect(
      vocab == 0 || (vocab > 2 && vocab <= known), "text",
      "task.vocab of 3 to {} expected at word level (the training text's words, <unk> and <eos>), or 0 for "
      "all: got {}",
      known, vocab);
  words_ = {"<unk>", "<eos>"};
  for (int64_t i = 0; i < (vocab == 0 ? known : vocab) - 2; ++i) words_.emplace_back(sorted[i].first);
  for (size_t id = 0; id < words_.size(); ++id) ids_[words_[id]] = static_cast<int32_t>(id);
  ids_["\n"] = kEndOfLine;
}

void WordTokenizer::encode(std::string_view document, Tokens& out) const {
  size_t start = 0;  // of the token before
  bool first = true;
  for_each_token(document, [&](size_t begin, std::string_view word) {
    const auto found = ids_.find(word);
    out.ids.push_back(found == ids_.end() ? kUnknown : found->second);
    if (!first) out.bytes.push_back(static_cast<int32_t>(begin - start));
    start = first ? 0 : begin;
    first = false;
  });
  if (!first) out.bytes.push_back(static_cast<int32_t>(document.size() - start));
}

std::string WordTokenizer::text(int32_t id) const {
  return id == kEndOfLine ? "\n" : words_.at(id) + " ";
}

}  // namespace copylab::text
