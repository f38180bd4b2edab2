// The check behind `copylab check backends`: float32 of each backend against float64 on the CPU.
#pragma once

#include <ostream>
#include <string>

#include "core/backend.h"
#include "core/settings.h"

namespace copylab {

struct BackendCheck {
  double loss_error = 0;      // relative difference of the mean loss
  double gradient_error = 0;  // largest difference in a parameter's gradient, relative to its largest entry
                              // (or to a hundredth of the model's, if that is more)
  std::string parameter;      // where
};

// One batch through a model with the same weights, in float32 on `backend` and in float64 on the CPU.
BackendCheck check_backend(const Backend& backend, const Settings& settings);

// A table over all backends of this build and all variants of heads. A difference above what rounding
// explains is called a bug. Returns 0, or 3 if there is one.
int check_backends(std::ostream& out);

}  // namespace copylab
