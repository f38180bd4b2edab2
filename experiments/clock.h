// Elapsed wall time, for rates, limits and progress; never for anything that a result depends on.
#pragma once

#include <chrono>

namespace copylab {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace copylab
