// generation: how much greedy continuations of test prompts repeat themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/measures/measure.h"

namespace copylab {

// Share of the n-grams of a text that occurred in it before (1 - distinct-n); NaN for a text shorter than n.
double repeated_ngrams(const std::vector<int32_t>& text, int64_t n);

// The shortest period p <= longest of the text's second half, or 0: every token there equals the one p before
// it. A text that ends like that is a loop.
int64_t loop_period(const std::vector<int32_t>& text, int64_t longest);

extern const MeasureEntry generation_measure;

}  // namespace copylab
