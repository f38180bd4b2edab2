// Golden values from PyTorch are compared on the emulated backend here.
#include "tests/core/golden.h"
#include "tests/emulator/emulator.h"

namespace copylab::test {

const Backend& golden_backend() {
  return cuda::emulator::backend();
}

}  // namespace copylab::test
