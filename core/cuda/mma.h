// Products of bfloat16 matrices on tensor cores: blocks of 16 x 16 numbers that the lanes of a warp hold
// together, multiplied by blocks of 16 x 8, with sums in float32. All lanes of a warp call these functions.
//
// Who holds what is said by the PTX ISA (9.0), section 9.7.14.5.8 "Matrix Fragments for mma.m16n8k16 with
// floating point type". With g = lane / 4 and t = lane % 4, a word holds two numbers, the first one low:
//   a (16 x 16)  words 0..3: row g, g + 8, g, g + 8; columns 2t and 2t + 1 in 0 and 1, 2t + 8 and 2t + 9 in 2
//                and 3
//   b (16 x 8)   words 0 and 1: column g; rows 2t and 2t + 1 in 0, 2t + 8 and 2t + 9 in 1
//   c (16 x 8)   numbers 0..3: row g, g, g + 8, g + 8; column 2t, 2t + 1, 2t, 2t + 1
// so that the sums of two products side by side are, rounded, the left operand of the next product.
#pragma once

#include "core/cuda/bf16.h"

namespace copylab::cuda {

// c += a · b.
CL_DEVICE void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if defined(__CUDACC__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  struct Operands {
    uint32_t a[4], b[2];
  };
  const Operands own{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  Operands of[kWarp];
  emulator::gather(&own, of, sizeof(own));
  const auto number = [](uint32_t word, int half) {
    return from_bf16({static_cast<uint16_t>(word >> 16 * half)});
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int t = k % 8 / 2;
      c[i] += number(of[row % 8 * 4 + t].a[k / 8 * 2 + row / 8], k % 2) *
              number(of[column * 4 + t].b[k / 8], k % 2);
    }
  }
#endif
}

// Four blocks of 8 x 8 numbers from shared memory. Lane l says where row l % 8 of block l / 8 begins, at a
// multiple of 16 bytes. Word i of a lane: of block i, row g, columns 2t and 2t + 1 (PTX ISA, section
// 9.7.14.5.15 "Warp-level matrix load instruction: ldmatrix"); transposed: column g, rows 2t and 2t + 1.
template <bool kTransposed>
CL_DEVICE void load_blocks(const Bf16* row, uint32_t (&words)[4]) {
#if defined(__CUDACC__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
#else
  const Bf16* rows[kWarp];
  emulator::gather(&row, rows, sizeof(row));
  for (int i = 0; i < 4; ++i) {
    words[i] = 0;
    for (int half = 0; half < 2; ++half) {
      const int g = lane() / 4, t = lane() % 4 * 2 + half;
      words[i] |= uint32_t{rows[8 * i + (kTransposed ? t : g)][kTransposed ? g : t].bits} << 16 * half;
    }
  }
#endif
}

}  // namespace copylab::cuda
