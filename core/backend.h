// Backend: one machine that can hold arrays and run the kernels: the CPU, or a GPU where one is built in.
#pragma once

#include <cstddef>
#include <memory>

#include "core/kernels.h"
#include "core/step_graph.h"

namespace copylab {

struct Backend {
  const char* name;                 // "cpu", "cuda"
  void* (*allocate)(size_t bytes);  // 64-byte aligned; throws Error naming the bytes when it cannot
  void (*release)(void* data);
  void (*fill_zero)(void* data, size_t bytes);
  void (*copy_in)(void* to, const void* from, size_t bytes);   // host -> backend
  void (*copy_out)(void* to, const void* from, size_t bytes);  // backend -> host
  KernelTable<float> f32;
  KernelTable<double> f64;
  // A graph for steps that are alike. `always`: records each step that is not what was recorded before; else
  // gives up when steps keep differing. Null function: this machine has no graphs.
  std::unique_ptr<StepGraph> (*step_graph)(bool always) = nullptr;

  template <class T>
  const KernelTable<T>& kernels() const;
};

template <>
inline const KernelTable<float>& Backend::kernels<float>() const {
  return f32;
}
template <>
inline const KernelTable<double>& Backend::kernels<double>() const {
  return f64;
}

const Backend& cpu_backend();
// Null where this build has no CUDA backend (core/cuda/none.cpp) or no GPU was found; `why` then says so.
const Backend* cuda_backend(const char** why);

}  // namespace copylab
