// The float64 kernels of the GPU.
#include "core/cuda/kernels/table.h"

namespace copylab::cuda {
template KernelTable<double> kernel_table<double>();
}  // namespace copylab::cuda
