// Nearest names, for the "did you mean" of error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace copylab {

// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours cost 1.
int edit_distance(std::string_view a, std::string_view b);

// The candidates closest to `word`, all that share the smallest distance (at most three, in their order), or
// none if even those differ in more than a third of their letters.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'a' or 'b'?", or "" if nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace copylab
