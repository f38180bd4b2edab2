// neural_cache: what a tuned cache of past hidden states adds to a trained model (Grave et al. 2016; papers
// §9.2).
#pragma once

#include "experiments/measures/scored_split.h"

namespace copylab {

// What the cache gives the target of position t of one sequence: over the positions i < t of its document, at
// most `window` of them (0 = all), p(w) ∝ sum of exp(theta·h_t·h_i) over those with next token x_{i+1} = w.
// (T); -1 where there is no earlier position or no label. `scores` (T, T) holds h_t·h_i.
std::vector<double> cache_probabilities(const ScoredSplit& split, int64_t sequence, const Matrix& scores,
                                        double theta, int64_t window);

extern const MeasureEntry neural_cache_measure;

}  // namespace copylab
