// What baselines on top of a trained model need of a split: its tokens, and for each the model's -log p and
// state.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/measures/head_sample.h"

namespace copylab {

// Sequences 0..S-1 of a split, as evaluation reads them, of T positions each. Of a stream task they are the
// lanes, each of them one long sequence.
struct ScoredSplit {
  int64_t sequences = 0, length = 0, dim = 0;
  std::vector<int32_t> tokens, targets, segment,
      slice;                  // (S, T); targets -1 = no label; the last two may be empty
  std::vector<double> nll;    // (S, T) nats, 0 where there is no label
  std::vector<float> hidden;  // (S, T, D) final normed states

  bool labelled(int64_t i) const { return targets[i] >= 0; }
  // Positions i and j of one sequence belong to one document.
  bool same_document(int64_t i, int64_t j) const { return segment.empty() || segment[i] == segment[j]; }
  // Positions first..end-1 of a sequence (end - first, D).
  Matrix states(int64_t sequence, int64_t first, int64_t end) const;
};

// Splits that were scored with one set of weights, for the next measure on the same.
struct SplitCache {
  std::map<Split, std::shared_ptr<const ScoredSplit>> splits;
  bool used = false;  // since it was last set to false
};

// As many sequences as the run evaluates on: eval.sequences of the validation split, eval.test_sequences of
// the test split. With in.cache the passes are made once.
std::shared_ptr<const ScoredSplit> score_split(const MeasureInput& in, Split split);
// For MeasureEntry::plan: the operations of both.
double plan_splits(const MeasureInput& in);

// The weight w in [0, 1) that maximises sum log((1-w)·p + w·q) over pairs of probabilities, with one more
// event that only p foresees: with it w < 1 however few pairs there are. The sum is concave; its slope is
// bisected.
double best_mixture_weight(const std::vector<double>& p, const std::vector<double>& q);

// loss, base_loss, gain = base_loss - loss, and the same by slice (loss_by_slice, …), in nats: `mixed` (S, T)
// is the baseline's -log p, beside the model's own. NaN for slices without labels.
void report_losses(const ScoredSplit& test, const std::vector<double>& mixed, const Task& task,
                   MeasureOutput& out);

}  // namespace copylab
