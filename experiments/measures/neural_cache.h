// neural_cache: what a tuned cache of past hidden states adds to a trained model (Grave et al. 2016; papers
// §9.2).
#pragma once

#include "experiments/measures/scored_split.h"

namespace copylab {

// h_t·h_i of some positions t of a sequence, with as many i before them as any window holds.
struct CacheScores {
  int64_t first_row, first_key;
  Matrix products;  // (rows, keys)
};
// Of rows first..end-1; window 0 = all earlier positions.
CacheScores cache_scores(const ScoredSplit& split, int64_t sequence, int64_t first, int64_t end,
                         int64_t window);

// What the cache gives the target of position t of one sequence: over the positions i < t of its document, at
// most `window` of them (0 = all), p(w) ∝ sum of exp(theta·h_t·h_i) over those with next token x_{i+1} = w.
// (rows of the scores); -1 where there is no earlier position or no label.
std::vector<double> cache_probabilities(const ScoredSplit& split, int64_t sequence, const CacheScores& scores,
                                        double theta, int64_t window);

extern const MeasureEntry neural_cache_measure;

}  // namespace copylab
