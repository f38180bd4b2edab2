// What this build and this machine can do with a GPU.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace copylab {

// Toolkit, driver, GPU, architectures built: lines for `copylab doctor`.
std::vector<std::pair<std::string, std::string>> gpu_facts();

// How the CUDA backend computes float32 matrix products and attention from now on: "f32", "tf32" or "bf16".
void set_gpu_precision(const std::string& name);

}  // namespace copylab
