// Rank statistics, exact tests and intervals of shares, and log-spaced bins that measures share.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace copylab {

// Area under the ROC curve: the probability that a positive's score exceeds a negative's, ties counted half
// (Mann-Whitney). NaN without a positive or without a negative.
double auc(const std::vector<double>& scores, const std::vector<bool>& positive);

// True-positive rate of "score >= threshold" where its false-positive rate is i/(points-1), i = 0..points-1,
// interpolated linearly (so that ties are a straight line, in agreement with auc). NaN like auc.
std::vector<double> roc_curve(const std::vector<double>& scores, const std::vector<bool>& positive,
                              int64_t points);

// Spearman's rank correlation of the pairs in which both are finite; ties get their mean rank. NaN with fewer
// than two such pairs or without variation.
double spearman(const std::vector<double>& x, const std::vector<double>& y);

// Two-sided p-value of McNemar's exact test: of n = a + b pairs that differ, a one way and b the other, the
// probability that a fair coin divides n at least as unevenly. 1 without such pairs.
double mcnemar(int64_t a, int64_t b);

// Wilson's 95 % interval of a share of which `right` of n trials are known. NaN without trials.
std::pair<double, double> wilson_interval(int64_t right, int64_t n);

// The mean of the two in the middle where there is an even number. NaN without values.
double median(std::vector<double> values);

// Upper ends of half-octave bins 1, 2, 3, 4, 6, 8, 12, 16, … that cover 1..largest; the last is `largest`.
std::vector<int64_t> half_octaves(int64_t largest);
// The bin of x: the first whose upper end is not below x.
int64_t bin_of(const std::vector<int64_t>& upper_ends, int64_t x);

}  // namespace copylab
