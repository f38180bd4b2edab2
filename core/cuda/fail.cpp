// Throws the errors of the CUDA backend, whose own files do not include fmt.
#include "core/cuda/machine.h"
#include "core/error.h"

namespace copylab::cuda {

void fail(const char* where, const std::string& what) {
  throw Error("[" + std::string(where) + "] " + what);
}

}  // namespace copylab::cuda
