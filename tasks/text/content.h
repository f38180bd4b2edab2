// What the text of a run was: hashes of the user's own files, so that a later change of them is noticed.
#pragma once

#include <string>

namespace copylab::text {

// "train:<hash> valid:<hash> test:<hash>", 16 hexadecimal digits each, of the splits that come from the
// user's files: all of them of `path`, the test split of `test_corpus`. A shipped corpus has none, and ""
// stands for no text. Throws Error for files that are not there.
std::string content_of(const std::string& path, const std::string& test_corpus);

// Throws Error, naming the file, if one of the hashes in `content` is no longer that of its split. Splits
// that it does not name are not looked at.
void expect_content(const std::string& path, const std::string& test_corpus, const std::string& content);

// A path of the user, absolute; the name of a shipped corpus and "" as they are.
std::string absolute_path(const std::string& corpus);

}  // namespace copylab::text
