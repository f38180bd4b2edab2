// Corpus: where the files of each split are, and where its documents begin.
#include "tasks/text/corpus.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <regex>

#include "core/error.h"
#include "core/nearest.h"
#include "core/random.h"
#include "tasks/text/file.h"

namespace copylab::text {
namespace fs = std::filesystem;
namespace {

constexpr std::array kSplits = {Split::train, Split::valid, Split::test};

// The source tree this program was built from, or the one that the program lies in.
fs::path corpora_folder() {
  const fs::path inside = fs::path("tasks") / "text" / "corpora";
  const fs::path source = fs::path(COPYLAB_SOURCE_DIR) / inside;
  if (fs::is_directory(source)) return source;
  for (fs::path folder = fs::read_symlink("/proc/self/exe"); folder != folder.parent_path();) {
    folder = folder.parent_path();
    if (fs::is_directory(folder / inside)) return folder / inside;
  }
  throw Error("[text] the shipped corpora are missing: expected them in " + source.string() +
              "; name a text of your own with task.path");
}

fs::path shipped_path(const std::string& name) {
  return name == "tinyshakespeare" ? corpora_folder() / name / "input.txt.xz" : corpora_folder() / name;
}

std::vector<fs::path> sorted_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename().string()[0] != '.') files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Files of `folder` that are called [PREFIX.]SPLIT[.txt|.tokens|.raw][.xz], any prefix if it is empty.
std::vector<fs::path> files_of_split(const fs::path& folder, const std::string& prefix, const char* split) {
  static const std::regex kName(R"((?:(.+)\.)?(train|valid|test)(?:\.txt|\.tokens|\.raw)?(?:\.xz)?)");
  std::vector<fs::path> found;
  for (const fs::path& file : sorted_files(folder)) {
    std::smatch part;
    const std::string name = file.filename().string();
    if (std::regex_match(name, part, kName) && part[2] == split && (prefix.empty() || part[1] == prefix))
      found.push_back(file);
  }
  return found;
}

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

bool is_title(std::string_view line) {
  return line.size() > 4 && line.substr(0, 2) == "= " && line.substr(line.size() - 2) == " =" &&
         line.substr(0, 4) != "= = ";
}

// Where the part after `share` of a text begins: after the end of the line that the share ends in.
size_t cut_after(std::string_view text, int percent) {
  const size_t share = text.size() / 100 * percent + text.size() % 100 * percent / 100;
  if (share == 0) return 0;
  const size_t newline = text.find('\n', share - 1);
  return newline == std::string_view::npos ? share : newline + 1;
}

}  // namespace

const std::vector<std::string>& shipped_corpora() {
  static const std::vector<std::string> names = {"wikitext-2", "tinyshakespeare", "novels"};
  return names;
}

Corpus::Corpus(const std::string& name_or_path) : name_(name_or_path) {
  const auto& shipped = shipped_corpora();
  const bool ours = std::find(shipped.begin(), shipped.end(), name_) != shipped.end();
  const fs::path path = ours ? shipped_path(name_) : fs::path(name_);
  if (fs::is_regular_file(path)) {
    one_file_ = true;
    for (auto& files : files_) files = {path};
    return;
  }
  const bool prefixed = !fs::is_directory(path);
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path folder = prefixed ? parent : path;
  for (const Split split : kSplits) {
    auto& files = files_[static_cast<size_t>(split)];
    if (!prefixed && fs::is_directory(folder / name_of(split))) {
      files = sorted_files(folder / name_of(split));
      expect(!files.empty(), "text", "files expected in {}", (folder / name_of(split)).string());
      continue;
    }
    if (fs::is_directory(folder))
      files = files_of_split(folder, prefixed ? path.filename().string() : "", name_of(split));
    expect(!files.empty(), "text",
           "a file, a folder with train, valid and test files, or a shipped corpus ({}) expected: got {}, "
           "with no {} file{}",
           fmt::join(shipped, ", "), name_, name_of(split), did_you_mean(name_, shipped));
    expect(files.size() == 1, "text", "one {} file expected: got {} and {}", name_of(split),
           files[0].string(), files.back().string());
  }
}

std::vector<std::string> Corpus::documents(Split split) const {
  std::vector<std::string> documents;
  for (const fs::path& file : files(split)) {
    const std::string text = unpack(read_bytes(file), file);
    std::string_view part = text;
    if (one_file_) {
      const size_t valid = cut_after(text, 90), test = std::max(valid, cut_after(text, 95));
      part = split == Split::train   ? part.substr(0, valid)
             : split == Split::valid ? part.substr(valid, test - valid)
                                     : part.substr(test);
    }
    for (std::string& document : split_articles(part)) documents.push_back(std::move(document));
  }
  expect(!documents.empty(), "text", "{}: the {} split is empty", name_, name_of(split));
  return documents;
}

uint64_t Corpus::fingerprint(Split split) const {
  std::string all = one_file_ ? name_of(split) : "";
  for (const fs::path& file : files(split)) {
    const std::string bytes = read_bytes(file);
    all += fmt::format("\n{} {}", bytes.size(), hash_name(bytes));
  }
  return hash_name(all);
}

std::vector<std::string> split_articles(std::string_view text) {
  struct Line {
    size_t begin;
    bool empty, title;
  };
  std::vector<std::string> articles;
  size_t article = 0;
  Line before{0, false, false}, last{0, false, false};  // the two lines before the current one
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    const Line current{begin, line.empty(), is_title(line)};
    if (before.empty && last.title && current.empty && before.begin > article) {
      articles.emplace_back(text.substr(article, before.begin - article));
      article = before.begin;
    }
    before = last;
    last = current;
    begin = end + 1;
  }
  if (article < text.size()) articles.emplace_back(text.substr(article));
  return articles;
}

}  // namespace copylab::text
