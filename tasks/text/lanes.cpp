// Lanes: arithmetic of stretches.
#include "tasks/text/lanes.h"

#include <algorithm>

#include "core/error.h"

namespace copylab::text {

Lanes::Lanes(int64_t tokens, int64_t lanes, int64_t length, int64_t advance)
    : lanes_(lanes), length_(length), advance_(advance), targets_(tokens - 1) {
  expect(targets_ >= lanes_, "text", "task.lanes: at most as many lanes as targets, {}, expected: got {}",
         std::max<int64_t>(0, targets_), lanes_);
  expect(advance_ >= 1 && advance_ <= length_, "text", "task.advance: 1..{} positions expected: got {}",
         length_, advance_);
  per_lane_ = (targets_ + lanes_ - 1) / lanes_;
}

int64_t Lanes::stretches() const {
  return 1 + std::max<int64_t>(0, per_lane_ - length_ + advance_ - 1) / advance_;
}

int64_t Lanes::size(int64_t lane) const {
  return std::clamp<int64_t>(targets_ - lane * per_lane_, 0, per_lane_);
}

}  // namespace copylab::text
