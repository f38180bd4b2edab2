// The check behind `copylab check backends`: float32 of each backend against float64 on the CPU, kernel by
// kernel and for whole models.
#pragma once

#include <map>
#include <ostream>
#include <string>

#include "core/backend.h"
#include "core/settings.h"

namespace copylab {

struct BackendCheck {
  double loss_error = 0;      // relative difference of the mean loss
  double gradient_error = 0;  // largest difference in a parameter's gradient, relative to its largest entry
                              // (or a hundredth of the model's, or 0.01, if that is more)
  std::string parameter;      // where
};

// One batch through a model with the same weights, in float32 on `backend` and in float64 on the CPU.
BackendCheck check_backend(const Backend& backend, const Settings& settings);

// The worst of a kernel's cases (experiments/check/op_cases.h), as op_error.
struct KernelCheck {
  int cases = 0;
  double error = 0;      // float32 on the backend against float64 on the CPU
  double reference = 0;  // float32 on the CPU against that, for comparison
  double error64 = 0;    // float64 on the backend: where this is large, it is no rounding
  std::string variant;   // the case of `error`, and the array
  double tolerance;      // of `error`
  bool is_rounding() const;
};
// By entry of KernelTable, of all or of one. With `bf16` the backend has been told to round what it
// multiplies to bfloat16: inputs are such numbers then, and float64, which is not rounded, is left out.
std::map<std::string, KernelCheck> check_kernels(const Backend& backend, const std::string& only = "",
                                                 bool bf16 = false);

// Some updates of training on a backend, three times.
struct TrainingCheck {
  bool again;                // the same bits when nothing is changed
  bool graph;                // and by recorded steps (train.cuda_graph)
  StepGraph::Counts counts;  // how these ran
  bool is_right() const { return again && graph && counts.repeated > 0; }
};
TrainingCheck check_training(const Backend& backend, const Settings& settings);

// Tables over all backends of this build: kernel by kernel, models with every variant of heads, and training
// with each head and of an LSTM on streams, on backends with step graphs. A difference above what rounding
// explains, or of any bit between trainings, is called a bug. Returns 0, or 3 if there is one.
int check_backends(std::ostream& out);

}  // namespace copylab
