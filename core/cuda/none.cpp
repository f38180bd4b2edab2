// Stands in for the CUDA backend in builds without one.
#include "core/backend.h"
#include "core/cuda/gpu.h"

namespace copylab {

const Backend* cuda_backend(const char** why) {
  *why = "this build has no CUDA backend: " COPYLAB_CUDA_MISSING;
  return nullptr;
}

std::vector<std::pair<std::string, std::string>> gpu_facts() {
  return {};
}

void set_gpu_precision(const std::string&) {}

}  // namespace copylab
