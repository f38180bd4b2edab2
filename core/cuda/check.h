// CUDA_CHECK: runs a command of the CUDA runtime, and throws an Error with the command if it fails.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "core/cuda/machine.h"

namespace copylab::cuda {

inline void check(cudaError_t error, const char* command, const char* file, int line) {
  if (error == cudaSuccess) return;
  fail("cuda", std::string(command) + ": " + cudaGetErrorString(error) + " (" + file + ":" +
                   std::to_string(line) + ")");
}

}  // namespace copylab::cuda

#define CUDA_CHECK(...) ::copylab::cuda::check(__VA_ARGS__, #__VA_ARGS__, __FILE__, __LINE__)
