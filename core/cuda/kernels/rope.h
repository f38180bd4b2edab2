// Rotary embedding kernel, half-split convention: the pair (x_i, x_{i+d/2}) turns by position · frequency i.
#pragma once

#include "core/cuda/kernels/index.h"
#include "core/cuda/kernels/map.h"
#include "core/kernels.h"

namespace copylab::cuda {

template <class T>
void rope(const T* x, const T* cos, const T* sin, const int32_t* positions, T* y, int64_t n, int64_t heads,
          int64_t head_dim, int64_t table_rows, int sign, bool add) {
  const int64_t half = head_dim / 2;
  uint64_t* errors = index_errors();
  map(
      n * heads * half, CL_LAMBDA(int64_t i) {
        const int64_t row = i / (heads * half), pair = i % half;
        const bool valid = in_table(positions[row], 0, table_rows, row, errors, IndexUser::rope);
        const int64_t angle = valid ? positions[row] * half + pair : pair;
        const int64_t low = i / half * head_dim + pair, high = low + half;
        const T a = x[low], b = x[high], c = cos[angle], s = T(sign) * sin[angle];
        const T turned_a = a * c - b * s, turned_b = b * c + a * s;
        y[low] = add ? y[low] + turned_a : turned_a;
        y[high] = add ? y[high] + turned_b : turned_b;
      });
}

template <class T>
void fill_rope(KernelTable<T>& k) {
  k.rope = rope<T>;
}

}  // namespace copylab::cuda
