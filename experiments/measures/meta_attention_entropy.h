// meta_attention_entropy: what meta-tokens do to the attention of the tokens after them, and where their
// states point.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

// Of a row of attention p (n), which sums to 1. 0·log 0 is 0.
double entropy(const std::vector<double>& p);
// The row after `delta` is added to the logit of column j.
std::vector<double> boosted(const std::vector<double>& p, size_t j, double delta);
// d entropy / d delta at 0: -p_j (log p_j + H) (papers: meta-tokens, §4.6). Positive where p_j < exp(-H):
// there a boost of the logit raises the entropy, against Theorem 4.1.
double entropy_slope(const std::vector<double>& p, size_t j);

extern const MeasureEntry meta_attention_entropy_measure;

}  // namespace copylab
