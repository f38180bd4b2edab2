// Draws without replacement: several different ids of a range, uniformly and in random order.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"

namespace copylab {

// `count` different ids of low..low+range-1, every ordered choice equally likely. Uses the draws first_draw
// .. first_draw+count-1. Throws Error where the range is too small.
std::vector<int32_t> draw_distinct(const Random& random, uint64_t first_draw, int64_t count, int64_t low,
                                   int64_t range);

}  // namespace copylab
