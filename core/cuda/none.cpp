// Stands in for the CUDA backend in builds without one.
#include "core/backend.h"

namespace copylab {

const Backend* cuda_backend(const char** why) {
  *why = "this build has no CUDA backend yet; use --device cpu";
  return nullptr;
}

}  // namespace copylab
