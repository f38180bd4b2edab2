// Random numbers in kernels: the blocks of core/random.h's streams.
#pragma once

#include "core/cuda/device.h"
#include "core/random.h"

namespace copylab::cuda {

// What Random::from_key(key, step).block(index) gives.
CL_DEVICE std::array<uint32_t, 4> random_block(uint64_t key, uint64_t step, uint64_t index) {
  return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                     static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
                    {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

// A word of 32 bits below this has happened with probability `rate`.
inline uint32_t random_threshold(double rate) {
  return static_cast<uint32_t>(rate * 0x1.0p32);
}

}  // namespace copylab::cuda
