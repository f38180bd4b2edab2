// word_frequency: loss by how often a word was trained on, and by where it occurred before (P5, P7-P9).
#pragma once

#include "experiments/measures/scored_split.h"

namespace copylab {

// How often each id 0..V-1 was a target of the run's training batches.
std::vector<int64_t> training_counts(const MeasureInput& in);

struct Bucket {
  double loss = 0;   // mean -log p, nats
  double count = 0;  // mean training count of its targets' words
};

// The labels of a split in `buckets` parts of equal size, words with the largest training count first,
// equally frequent ones by id. The labels of a word that lies across a border are shared out: each part gets
// its share of them at the word's mean loss.
std::vector<Bucket> frequency_buckets(const ScoredSplit& split, const std::vector<int64_t>& counts,
                                      int64_t buckets);

// Where the target of position t was last read in its sequence (for a stream: its lane) and document, x_t
// included: among the last `window` tokens, farther back, or never.
enum class Reach : int { near, far, never };
std::vector<Reach> reach_of_targets(const ScoredSplit& split, int64_t window);  // (S, T)

// Consecutive labels of one sequence, `size` of them; what is left over at its end counts as nothing.
struct Segment {
  double loss = 0;  // mean -log p, nats
  double rare = 0;  // share of its targets that are rare
};
std::vector<Segment> segments_of(const ScoredSplit& split, const std::vector<int64_t>& counts, int64_t rare,
                                 int64_t size);

extern const MeasureEntry word_frequency_measure;

}  // namespace copylab
