// copy_behaviour: when a pointer is used, what it points at, and which predictions it repairs.
#pragma once

#include "experiments/measures/pointer_trace.h"

namespace copylab {

// Position t has read x_0..x_t and predicts y = x_{t+1}. Throughout:
//   m_tp      = alpha_t · a_tp, the copy mass that t sends through the token at position p
//   m_t       = sum_p m_tp = alpha_t (1 - a_sink), the share of probability that is really copied ("use")
//   y copyable: y is the token at one of the positions that the head lets t point at
//   pointer right: the token with the largest pointer mass is y (so y is copyable)
// Sources p of t are classed by what agrees with y and its left context, within the document:
//   token     x_p = y
//   context1  x_{p-1} = x_t                        context2  and x_{p-2} = x_{t-1}
//   token+context1, token+context2: both
class CopyBehaviour {
 public:
  static constexpr int kSources = 5;  // in the order above

  CopyBehaviour(const PointerReach& reach, int64_t length);

  // Adds the labelled positions of a sequence. `other` is another sequence of the same task, or null: its row
  // of weights at the same t, cut to the positions that t may use and scaled to the mass m_t, is a pointer
  // that knows distances but not contents ("shuffled").
  void add(const PointerTrace& trace, const PointerTrace* other);
  void report(MeasureOutput& out) const;

 private:
  void add_sources(const PointerTrace& trace, const PointerTrace* other, int64_t t);

  PointerReach reach_;
  std::vector<int64_t> bins_;  // of positions read (t + 1) and of distances t + 1 - p
  bool pointer_ = false, sink_known_ = false;

  // By labelled position.
  std::vector<double> gate_, use_, sink_;
  std::vector<bool> right_, new_;

  double labels_ = 0, fixes_ = 0, breaks_ = 0;
  // Copy mass in total and by kind of source: of the pointer, of a uniform choice among the positions that t
  // may use, and of the shuffled pointer, whose total is summed apart because a first sequence has none.
  double mass_ = 0, shuffled_mass_ = 0;
  double source_[kSources] = {}, uniform_[kSources] = {}, shuffled_[kSources] = {};
  // By distance: all copy mass, that on the token y, and that of the shuffled pointer on y.
  std::vector<double> near_, near_right_, near_shuffled_;
  // By position bin: labels and sums of gate, use, sink, gate·sink, copyable.
  std::vector<double> count_, gate_at_, use_at_, sink_at_, gate_sink_at_, copyable_at_;
  // By how much of the past repeats before the target (see report): labels, and sums of nll and of hits in
  // the modes natural, no_copy, force_copy.
  static constexpr int kRepeats = 4, kModes = 3;
  double repeat_count_[kRepeats] = {}, repeat_nll_[kRepeats][kModes] = {},
         repeat_hits_[kRepeats][kModes] = {};
};

extern const MeasureEntry copy_behaviour_measure;

}  // namespace copylab
