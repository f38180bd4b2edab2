// Launch: one call of a kernel, as the machine is asked for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

namespace copylab::cuda {

// How many blocks of how many threads, and the line that asked for them, for errors.
struct Grid {
  Grid(int64_t blocks_, int threads_, std::source_location where_ = std::source_location::current())
      : blocks(blocks_), threads(threads_), where(where_) {}
  int64_t blocks;
  int threads;
  std::source_location where;
};

struct Launch {
  Grid grid;
  const void* kernel;
  int count;               // of arguments
  void* const* arguments;  // where each lies
  const size_t* sizes;     // bytes of each
  // In the emulator, does what one thread of the grid does; on a GPU null.
  void (*thread)(const void* kernel, void* const* arguments);
};

}  // namespace copylab::cuda
