// Draws without replacement: the first steps of a Fisher-Yates shuffle that keeps only what it has moved.
#include "tasks/distinct.h"

#include <unordered_map>

#include "core/error.h"

namespace copylab {

std::vector<int32_t> draw_distinct(const Random& random, uint64_t first_draw, int64_t count, int64_t low,
                                   int64_t range) {
  expect(count <= range, "draw_distinct", "no more than {} different ids expected: got {}", range, count);
  std::unordered_map<int64_t, int64_t> moved;  // place -> what lies there; untouched places hold themselves
  const auto at = [&](int64_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  std::vector<int32_t> drawn(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t j = i + static_cast<int64_t>(random.below(first_draw + i, range - i));
    drawn[i] = static_cast<int32_t>(low + at(j));
    moved[j] = at(i);
  }
  return drawn;
}

}  // namespace copylab
