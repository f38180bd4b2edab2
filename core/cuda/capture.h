// Capture: a stretch of what the machine is asked for, kept instead of done, to be run as a whole, again and
// again: a CUDA graph (capture.cu); in the emulator, a list of functions.
#pragma once

#include <memory>

#include "core/cuda/launch.h"

namespace copylab::cuda {

class Capture {
 public:
  Capture();  // from here on everything is kept
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void* last() const;  // the launch that was kept last
  void finish();       // from here on everything is done again
  // Before the next run(): the launch `which` of before, with another grid or other arguments.
  void update(void* which, const Launch& launch);
  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace copylab::cuda
