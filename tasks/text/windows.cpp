// Windows: a token stream cut into pieces of T predictions, numbered, and a keyed order of such numbers.
#include "tasks/text/windows.h"

#include <algorithm>

#include "core/error.h"

namespace copylab::text {

Windows::Windows(const std::vector<int64_t>& starts, int64_t length, bool shifting)
    : length_(length), shifting_(shifting) {
  constexpr int64_t kLong = 64;  // windows: one more costs less than 2 %
  int64_t windows = 0;
  for (size_t d = 0; d + 1 < starts.size(); ++d) {
    const int64_t targets = starts[d + 1] - starts[d] - 1;
    if (targets < 1) continue;
    start_.push_back(starts[d]);
    count_.push_back(targets);
    first_window_.push_back(windows);
    const int64_t needed = (targets + length - 1) / length, spare = needed * length - targets;
    windows += needed + (shifting && needed >= kLong && 2 * (spare + 1) <= length);
    targets_ += targets;
  }
  first_window_.push_back(windows);
}

Windows::Window Windows::at(int64_t i, const Random& shift) const {
  expect(i >= 0 && i < size(), "text", "a window below {} expected: got {}", size(), i);
  const auto next = std::upper_bound(first_window_.begin(), first_window_.end(), i);
  const auto d = static_cast<size_t>(next - first_window_.begin()) - 1;
  const int64_t windows = first_window_[d + 1] - first_window_[d];
  int64_t shorter = 0;  // the first window than T; neither it nor the last one may be empty
  if (shifting_) {
    const int64_t spare = windows * length_ - count_[d];
    const int64_t least = std::max<int64_t>(spare - length_ + 1, 0), most = std::min(spare, length_ - 1);
    shorter = least + static_cast<int64_t>(shift.below(d, most - least + 1));
  }
  const int64_t begin = (i - first_window_[d]) * length_ - shorter;
  const int64_t from = std::max<int64_t>(begin, 0), to = std::min(begin + length_, count_[d]);
  return {start_[d] + from, to - from};
}

int64_t permuted(const Random& key, int64_t i, int64_t n) {
  int half = 1;
  while ((int64_t{1} << (2 * half)) < n) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t x = static_cast<uint64_t>(i);
  do {
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed = left ^ (key.bits(round << 32 | right) & mask);
      left = right;
      right = mixed;
    }
    x = left << half | right;
  } while (x >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(x);
}

}  // namespace copylab::text
