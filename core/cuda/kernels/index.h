// Indices from outside: a kernel that meets one beyond its table notes it on the device and goes on with
// zeros; the error is thrown when the host next reads something.
#pragma once

#include <string>

#include "core/cuda/device.h"
#include "core/cuda/machine.h"

namespace copylab::cuda {

enum class IndexUser : int { embedding, gather_rows, scatter_rows, rope };
constexpr int kIndexUsers = 4;

// True if `index` lies in lowest..rows-1; else notes the smallest position `i` where it does not. For n below
// 2^32.
CL_DEVICE bool in_table(int32_t index, int64_t lowest, int64_t rows, int64_t i, uint64_t* errors,
                        IndexUser user) {
  if (index >= lowest && index < rows) return true;
  atomic_min(errors + static_cast<int>(user), static_cast<uint64_t>(i) << 32 | static_cast<uint32_t>(index));
  return false;
}

// Device memory to host, after everything that was asked for before. Throws an Error if a kernel met a bad
// index.
inline void read(void* to, const void* from, size_t bytes) {
  copy_to_host(to, from, bytes);
  constexpr const char* kNames[kIndexUsers] = {"embedding", "gather_rows", "scatter_rows", "rope"};
  uint64_t errors[kIndexUsers], none[kIndexUsers];
  copy_to_host(errors, index_errors(), sizeof(errors));
  for (uint64_t& word : none) word = ~uint64_t{0};
  for (int user = 0; user < kIndexUsers; ++user) {
    if (errors[user] == none[user]) continue;
    copy_to_device(index_errors(), none, sizeof(none));
    fail(kNames[user], "an index outside the table: got " +
                           std::to_string(static_cast<int32_t>(errors[user] & 0xffffffffu)) + " at " +
                           std::to_string(errors[user] >> 32));
  }
}

}  // namespace copylab::cuda
