// The check behind `copylab check resume`: a run that is killed and resumed ends in the same bits.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

namespace copylab {

// What differs between two finished runs, in weights, logged rows and test results (times and rates are not
// compared); empty if every bit agrees.
std::string difference_of_runs(const std::filesystem::path& a, const std::filesystem::path& b);

// Two kinds of run by turns: on independent sequences, and an LSTM on streams. Runs one reference of each,
// then `kills` runs in processes of their own (`worker` is the command; the folder is appended): each gets
// SIGKILL at a random moment, is resumed, and is compared with its reference. Last the negative controls: a
// run resumed without Adam's second moment, or without what its streams carry, must differ. Returns 0, or 3.
int check_resume(const std::vector<std::string>& worker, int kills, std::ostream& out);

}  // namespace copylab
