// exact_match: what copying after the longest repeated suffix adds to a trained model (papers §9.6).
#pragma once

#include "experiments/measures/scored_split.h"

namespace copylab {

// The most recent of the earlier positions i whose last tokens agree longest with those up to t, in one
// document.
struct SuffixMatch {
  int64_t length = 0;    // tokens that agree; 0: no match
  int64_t distance = 0;  // t - i
  int32_t next = -1;     // x_{i+1}, what came after
};

// (T), for each position of one sequence.
std::vector<SuffixMatch> suffix_matches(const ScoredSplit& split, int64_t sequence);

extern const MeasureEntry exact_match_measure;

}  // namespace copylab
