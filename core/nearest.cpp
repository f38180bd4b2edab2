// Nearest names by edit distance.
#include "core/nearest.h"

#include <algorithm>

namespace copylab {

int edit_distance(std::string_view a, std::string_view b) {
  const size_t n = b.size();
  std::vector<int> before(n + 1), above(n + 1), row(n + 1);  // rows i-2, i-1, i of the table
  for (size_t j = 0; j <= n; ++j) above[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= n; ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[n];
}

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::vector<std::string> found;
  int best = std::max<int>(1, static_cast<int>(word.size()) / 3);
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance > best) continue;
    if (distance < best) found.clear();
    best = distance;
    if (found.size() < 3) found.push_back(candidate);
  }
  return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  std::string text;
  for (const std::string& name : nearest(word, candidates)) {
    text += (text.empty() ? "; did you mean '" : " or '") + name + "'";
  }
  return text.empty() ? text : text + "?";
}

}  // namespace copylab
