// A stable sort of keys with their positions: the radix sort under Thrust (CUB), whose memory comes from
// here.
#include <cub/device/device_radix_sort.cuh>

#include "core/cuda/check.h"
#include "core/cuda/kernels/map.h"
#include "core/cuda/machine.h"

namespace copylab::cuda {

void sort(const int32_t* keys, int64_t n, int32_t* sorted, int32_t* order) {
  Workspace workspace;
  int32_t* positions = workspace.take<int32_t>(n);
  map(
      n, CL_LAMBDA(int64_t i) { positions[i] = static_cast<int32_t>(i); });
  constexpr int kBits = 31;  // keys are not negative
  size_t bytes = 0;
  CUDA_CHECK(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted, positions, order,
                                             static_cast<int>(n), 0, kBits, stream()));
  void* temporary = workspace.take<char>(static_cast<int64_t>(bytes));
  if (!wanted("sort", {key_of(temporary), key_of(keys), key_of(sorted), key_of(order), n})) return;
  CUDA_CHECK(cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, sorted, positions, order,
                                             static_cast<int>(n), 0, kBits, stream()));
}

}  // namespace copylab::cuda
