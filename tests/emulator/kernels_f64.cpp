// The float64 kernels of core/cuda, compiled for the host.
#include "core/cuda/kernels/table.h"

namespace copylab::cuda {
template KernelTable<double> kernel_table<double>();
}  // namespace copylab::cuda
