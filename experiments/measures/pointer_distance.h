// pointer_distance: how far back a pointer points, how much of it stays at the current position, and the gate
// (P6, P13, P14, P20).
#pragma once

#include "experiments/measures/pointer_trace.h"

namespace copylab {

// Position t has read x_0..x_t and predicts y. The newest token x_t has distance 1, that at p has t + 1 - p.
//   copied mass   gate_t · a_tp, the probability that goes to y's copies through position p
//   correct       x_p = y
//   g             1 - gate·(1 - sink), the vocabulary's share
//   self          a_tt over the weights of all positions: the sink left out, whatever the gate
// The reach of L positions (the window, or what is in a sequence) is cut into ten parts by distance. Only
// positions with all L of them before count there, so that every part has the same chance; where no position
// has (an unbounded pointer), all do.
class PointerDistance {
 public:
  static constexpr int kParts = 10;

  PointerDistance(const PointerReach& reach, int64_t length);
  void add(const PointerTrace& trace);
  void report(MeasureOutput& out) const;

 private:
  // Part of the reach that a distance 1..L lies in.
  int part_of(int64_t distance) const { return static_cast<int>((distance - 1) * kParts / span_); }

  PointerReach reach_;
  int64_t span_;  // L
  bool pointer_ = false;
  double labels_ = 0, full_ = 0;  // all labels, and those whose whole reach exists
  double g_ = 0, self_ = 0, self_top_ = 0;
  double copyable_ = 0, g_copyable_ = 0;           // labels whose target is in reach, and their g
  double mass_[kParts] = {}, right_[kParts] = {};  // copied mass, of all and of correct positions
  double even_[kParts] = {};                       // the same mass spread evenly, at correct positions
  double tops_[kParts] = {};                       // labels whose heaviest position is a correct one there
  double farthest_ = 0;                            // largest distance of such a position
};

extern const MeasureEntry pointer_distance_measure;

}  // namespace copylab
