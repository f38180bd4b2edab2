// The float32 kernels of the GPU.
#include "core/cuda/kernels/table.h"

namespace copylab::cuda {
template KernelTable<float> kernel_table<float>();
}  // namespace copylab::cuda
