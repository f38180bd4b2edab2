// Corpus: a text in three splits, each a list of documents; shipped with the project or the user's own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace copylab::text {

// The corpora in tasks/text/corpora (see the README there): "wikitext-2", "tinyshakespeare", "novels".
const std::vector<std::string>& shipped_corpora();

// Where the files of each split are. Files may be packed with xz. A corpus is given as
//   a shipped corpus' name,
//   a file: its first 90 % are for training, then 5 % for validation and 5 % for testing, each part reaching
//     to the end of the line that its share ends in,
//   a folder with one file a split: train.txt, ptb.train.txt, wiki.train.tokens …,
//   such a folder with the part of the names before ".train": FOLDER/ptb, or
//   a folder with the folders train, valid and test, whose files are read in the order of their names.
class Corpus {
 public:
  // Finds the files, without reading them. Throws Error if some are missing or ambiguous.
  explicit Corpus(const std::string& name_or_path);

  // The documents of a split, in order; together they are the split's text, byte for byte. A file is one
  // document, but for WikiText's format: there an article starts at the empty line before " = Title = ".
  // Throws Error if a file cannot be read or the split is empty.
  std::vector<std::string> documents(Split split) const;

  // Changes when the text of the split changes. Hashes the files as they are, without unpacking.
  uint64_t fingerprint(Split split) const;

  const std::string& name() const { return name_; }
  // What a split is read from, never empty.
  const std::vector<std::filesystem::path>& files(Split split) const {
    return files_[static_cast<size_t>(split)];
  }

 private:
  std::string name_;
  bool one_file_ = false;  // cut into splits
  std::vector<std::filesystem::path> files_[3];
};

// The articles of a text in WikiText's format, one document if there is no title. A title is a line
// "= Title =", not "= = Section = =", between two empty lines; the first of these belongs to the article.
std::vector<std::string> split_articles(std::string_view text);

}  // namespace copylab::text
