// Content: a hash for each split of the user's text, and their comparison.
#include "tasks/text/content.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "tasks/text/corpus.h"

namespace copylab::text {
namespace {

bool is_shipped(const std::string& corpus) {
  const auto& names = shipped_corpora();
  return std::find(names.begin(), names.end(), corpus) != names.end();
}

// The user's text that a split is of, or "".
std::string source_of(Split split, const std::string& path, const std::string& test_corpus) {
  const std::string& source = split == Split::test && !test_corpus.empty() ? test_corpus : path;
  return is_shipped(source) ? "" : source;
}

std::string hash_of(const std::string& source, Split split) {
  return fmt::format("{:016x}", Corpus(source).fingerprint(split));
}

}  // namespace

std::string content_of(const std::string& path, const std::string& test_corpus) {
  std::string content;
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    const std::string source = source_of(split, path, test_corpus);
    if (source.empty()) continue;
    content += fmt::format("{}{}:{}", content.empty() ? "" : " ", name_of(split), hash_of(source, split));
  }
  return content;
}

void expect_content(const std::string& path, const std::string& test_corpus, const std::string& content) {
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    const std::string source = source_of(split, path, test_corpus), name = std::string(name_of(split)) + ":";
    std::istringstream parts(content);
    for (std::string part; !source.empty() && parts >> part;) {
      if (!part.starts_with(name)) continue;
      const std::string now = hash_of(source, split);
      expect(part == name + now, "text",
             "{}: its text has changed since the run was made ({} split: hash {}, expected {}): put the old "
             "text back, "
             "or make a new run",
             Corpus(source).files(split).front().string(), name_of(split), now, part.substr(name.size()));
    }
  }
}

std::string absolute_path(const std::string& corpus) {
  if (corpus.empty() || is_shipped(corpus)) return corpus;
  return std::filesystem::absolute(corpus).lexically_normal().string();
}

}  // namespace copylab::text
