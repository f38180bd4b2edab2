// What stands between kernels and the machine: sees everything that is asked for, so that a step which asks
// for the same as the one before can be run from a recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>

#include "core/cuda/launch.h"
#include "core/step_graph.h"

namespace copylab::cuda {

void submit(const Launch& launch);

// Is the machine to be asked now for `what`, which is not a launch? `key`: all that it depends on.
bool wanted(const char* what, std::initializer_list<int64_t> key);
template <class T>
int64_t key_of(const T* address) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(address));
}

// While a step is recorded or compared: keeps an upload for later and says true.
bool postponed(void* to, const void* from, size_t bytes);
// Throws an Error if a step is being recorded or compared: nothing that it computes is there yet.
void expect_no_recording();

// See Backend::step_graph.
std::unique_ptr<StepGraph> step_graph(bool always);

}  // namespace copylab::cuda
