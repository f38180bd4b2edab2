// Lanes: a token stream read as L contiguous streams side by side, in stretches of T positions.
#pragma once

#include <cstdint>

#include "core/random.h"

namespace copylab::text {

// Targets 1..n-1 of a stream of n tokens (the first token has no context) lie on L lanes of equal length, the
// last one maybe shorter. The first stretch of a lane holds its first T targets; each later one begins
// `advance` positions after the one before and so adds `advance` targets. A turning stream begins at a place
// drawn anew for each epoch and goes on from its end to its beginning.
class Lanes {
 public:
  // Throws Error where there are fewer targets than lanes. 1 <= advance <= length.
  Lanes(int64_t tokens, int64_t lanes, int64_t length, int64_t advance);

  int64_t lanes() const { return lanes_; }
  int64_t advance() const { return advance_; }
  int64_t targets() const { return targets_; }
  int64_t stretches() const;  // until every target has been shown
  // Targets of a lane.
  int64_t size(int64_t lane) const;
  // Place within its lane of the first target of stretch i, and of the first one that no stretch before held.
  int64_t first(int64_t stretch) const { return stretch * advance_; }
  int64_t fresh(int64_t stretch) const { return stretch == 0 ? 0 : first(stretch) + length_ - advance_; }
  // Index in the stream of a lane's target; `turn` is the number of targets by which the stream was turned.
  int64_t target(int64_t lane, int64_t place, int64_t turn) const {
    return 1 + (lane * per_lane_ + place + turn) % targets_;
  }
  // A turn of 0..targets-1.
  int64_t draw_turn(const Random& random) const {
    return static_cast<int64_t>(random.below(0, static_cast<uint64_t>(targets_)));
  }

 private:
  int64_t lanes_, length_, advance_, targets_, per_lane_;
};

}  // namespace copylab::text
