// Random tokens shown twice, what a model loses on them, and how much attention its heads pay along a stripe.
#pragma once

#include <utility>

#include "experiments/measures/measure.h"

namespace copylab {

// The repeated sequences r_1 .. r_T r_1 .. r_T (papers: §5.2) that two measures look at.
struct Repeats {
  uint64_t seed;
  int64_t block;                    // T
  std::pair<int64_t, int64_t> ids;  // first and last id to draw from
};

// Sequences first..first+rows-1: 2T tokens each, the target of each position being the next token, of the
// last one r_1 again. The tokens of a block are different ids, so that each one determines what follows it in
// the second copy. A pure function of its arguments.
Batch repeated_sequences(const Repeats& repeats, int64_t first, int64_t rows);

// A setting of first and last id, checked; an empty one is the whole vocabulary.
std::pair<int64_t, int64_t> id_range(const std::vector<int64_t>& setting, int64_t vocab, const char* who);

// For MeasureEntry::plan: operations of forward passes over so many repeated sequences.
double plan_repeats(const MeasureInput& in, int64_t block, int64_t sequences);

// The block lengths of C32: 8, 16, .. as far as two copies are no longer than a sequence of the task and its
// target, and there are as many ids.
std::vector<int64_t> default_blocks(const Task& task, std::pair<int64_t, int64_t> ids);

// One number for each labelled position of a batch, in order; empty where the head has no such output.
struct Losses {
  std::vector<double> natural, no_copy;  // -log p, nats
  std::vector<double> force_copy;        // with `all_modes`; infinite where the target is out of reach
  std::vector<double> gate, sink;        // of a pointer
};
Losses losses_on(const nn::Model& model, const Batch& batch, bool all_modes = false, Probe* probe = nullptr,
                 nn::Carry* carry = nullptr);

// The weight of position i on position i - offset, for i = first..n-1, of each of the (n, n) maps: (maps,
// n - first). first >= offset.
std::vector<double> stripe(const std::vector<double>& maps, int64_t n, int64_t first, int64_t offset);

// Scores of the attention heads on repeats, each (layers, heads): the mean attention, over sequences and
// positions, of position i (papers: §5.2, restricted to the second copy)
struct HeadScores {
  int64_t layers = 0, heads = 0;  // 0 where the backbone shows no attention
  std::vector<double> induction;  // on i - (T-1), what followed the last showing of i's token; i = T..2T-1
  std::vector<double> previous;   // on i - 1; i = 1..2T-1
  std::vector<double> duplicate;  // on i - T, the last showing itself; i = T..2T-1

  // Places in `induction` by falling score; ties by place.
  std::vector<int64_t> order() const;
};

// The same for the pointer of a head that has one; means over the second copy.
struct PointerScores {
  double induction = 0;  // weight on i - (T-1), the sink's share counted in
  double gated = 0;      // that times the gate: the mass sent through that position
  double sink = 0, gate = 0;
};

struct RepeatScores {
  HeadScores heads;
  bool pointer = false;
  PointerScores copy_head;
};
RepeatScores score_heads(nn::Model& model, const Repeats& repeats, int64_t sequences);

// Mean -log p of the inducible tokens of the second copy, r_2 .. r_T.
struct RepeatLosses {
  double natural = 0, no_copy = 0;
  bool pointer = false;
  double force_copy = 0;  // over the reachable targets; NaN if there is none
  double reachable = 0;   // their share
  double first_copy = 0;  // natural, over r_2 .. r_T of the first copy
  std::vector<double> by_position,
      no_copy_by_position;  // of each target, tokens 1..2T-1; means over sequences
};
RepeatLosses repeat_losses(nn::Model& model, const Repeats& repeats, int64_t sequences,
                           bool all_modes = false);

}  // namespace copylab
