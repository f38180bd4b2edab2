// The backend whose kernels are those of core/cuda, run by the emulator.
#include "core/backend.h"

#include "core/cuda/kernels/index.h"
#include "core/cuda/kernels/table.h"
#include "tests/emulator/emulator.h"

namespace copylab::cuda {

extern template KernelTable<float> kernel_table<float>();
extern template KernelTable<double> kernel_table<double>();

const Backend& emulator::backend() {
  static const Backend backend{"emulated",
                               allocate,
                               release,
                               fill_zero,
                               copy_to_device,
                               read,
                               kernel_table<float>(),
                               kernel_table<double>(),
                               step_graph};
  return backend;
}

}  // namespace copylab::cuda
