// Normal deviates from Philox blocks.
#include "core/random.h"

#include <cmath>

namespace copylab {

double Random::normal(uint64_t index) const {
  const auto r = block(index);
  // u is in (0, 1], so that its logarithm is finite.
  const double u = (static_cast<double>((uint64_t{r[1]} << 32 | r[0]) >> 11) + 1.0) * 0x1.0p-53;
  const double v = static_cast<double>((uint64_t{r[3]} << 32 | r[2]) >> 11) * 0x1.0p-53;
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(kTwoPi * v);
}

}  // namespace copylab
