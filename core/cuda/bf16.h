// bfloat16 on the device: rounding, and pairs of numbers in one word, as tensor cores take them.
#pragma once

#include <cmath>

#include "core/cuda/device.h"
#include "core/cuda/machine.h"

namespace copylab::cuda {

// Rounds to nearest, ties to even; NaN stays NaN.
CL_DEVICE Bf16 to_bf16(float x) {
  union {
    float number;
    uint32_t bits;
  } word;
  word.number = x;
  if (x != x) return {static_cast<uint16_t>(word.bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((word.bits + 0x7fff + (word.bits >> 16 & 1)) >> 16)};
}
CL_DEVICE float from_bf16(Bf16 x) {
  union {
    uint32_t bits;
    float number;
  } word;
  word.bits = uint32_t{x.bits} << 16;
  return word.number;
}

// Two rounded numbers in a word; `low` is the one that comes first in memory.
CL_DEVICE uint32_t bf16_pair(float low, float high) {
#if defined(__CUDACC__)
  uint32_t pair;  // PTX ISA, "cvt": the first source goes to the upper half
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return to_bf16(low).bits | uint32_t{to_bf16(high).bits} << 16;
#endif
}

// What one access to memory reads, and what becomes of it.
struct alignas(16) FourNumbers {
  float x[4];
};
struct alignas(8) FourRounded {
  uint32_t pair[2];
};
CL_DEVICE FourRounded rounded(const FourNumbers& four) {
  return {{bf16_pair(four.x[0], four.x[1]), bf16_pair(four.x[2], four.x[3])}};
}
inline bool is_aligned(const float* x) {
  return reinterpret_cast<uintptr_t>(x) % sizeof(FourNumbers) == 0;
}

// 2^x within 2^-22 of it, which is enough for what is then rounded to bfloat16; less than 2^-126 is 0.
CL_DEVICE float fast_exp2(float x) {
#if defined(__CUDACC__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

}  // namespace copylab::cuda
