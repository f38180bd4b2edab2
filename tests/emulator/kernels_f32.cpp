// The float32 kernels of core/cuda, compiled for the host.
#include "core/cuda/kernels/table.h"

namespace copylab::cuda {
template KernelTable<float> kernel_table<float>();
}  // namespace copylab::cuda
