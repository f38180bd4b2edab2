// Rotary embedding kernel, half-split convention: the pair (x_i, x_{i+d/2}) turns by position · frequency i.
#include <algorithm>

#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"
#include "core/error.h"

namespace copylab::cpu {
namespace {

template <bool kAdd, class T>
void rotate(const T* x, const T* cos, const T* sin, T* y, int64_t half, T sign) {
  for (int64_t i = 0; i < half; ++i) {
    const T a = x[i], b = x[i + half], c = cos[i], s = sign * sin[i];
    const T turned_a = a * c - b * s, turned_b = b * c + a * s;
    y[i] = kAdd ? y[i] + turned_a : turned_a;
    y[i + half] = kAdd ? y[i + half] + turned_b : turned_b;
  }
}

template <class T>
void rope(const T* x, const T* cos, const T* sin, const int32_t* positions, T* y, int64_t n, int64_t heads,
          int64_t head_dim, int64_t table_rows, int sign, bool add) {
  for (int64_t i = 0; i < n; ++i)
    expect(positions[i] >= 0 && positions[i] < table_rows, "rope", "positions 0..{} expected: got {} at {}",
           table_rows - 1, positions[i], i);
  const int64_t dim = heads * head_dim, half = head_dim / 2;
  const int64_t block = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, dim));
  parallel_for((n + block - 1) / block, n * dim, [&](int64_t task) {
    for (int64_t i = task * block; i < std::min(n, (task + 1) * block); ++i) {
      const T *c = cos + positions[i] * half, *s = sin + positions[i] * half;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t at = i * dim + h * head_dim;
        if (add)
          rotate<true>(x + at, c, s, y + at, half, T(sign));
        else
          rotate<false>(x + at, c, s, y + at, half, T(sign));
      }
    }
  });
}

}  // namespace

template <class T>
void fill_rope(KernelTable<T>& k) {
  k.rope = rope<T>;
}
template void fill_rope(KernelTable<float>&);
template void fill_rope(KernelTable<double>&);

}  // namespace copylab::cpu
