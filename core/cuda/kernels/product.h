// Matrix products at the precision that was chosen: float32 and float64 as they are, or bfloat16 operands.
#pragma once

#include <type_traits>

#include "core/cuda/bf16.h"
#include "core/cuda/kernels/map.h"

namespace copylab::cuda {

// n numbers in a row.
inline Bf16* round_numbers(const float* x, int64_t n, Workspace& workspace) {
  Bf16* to = workspace.take<Bf16>(n);
  const int64_t fours = is_aligned(x) ? n / 4 : 0;
  map(
      fours, CL_LAMBDA(int64_t i) {
        reinterpret_cast<FourRounded*>(to)[i] = rounded(reinterpret_cast<const FourNumbers*>(x)[i]);
      });
  map(
      n - 4 * fours, CL_LAMBDA(int64_t i) { to[4 * fours + i] = to_bf16(x[4 * fours + i]); });
  return to;
}

// For Matrix::rounded of an operand of several products; null where products do not round.
template <class T>
const Bf16* round_once(const T* x, int64_t n, Workspace& workspace) {
  if constexpr (std::is_same_v<T, float>)
    if (precision() == Precision::bf16) return round_numbers(x, n, workspace);
  return nullptr;
}

// The matrices of a batch (rows, columns in storage), packed without gaps unless they are rounded already.
inline Matrix<Bf16> round_operand(const Matrix<float>& x, int64_t rows, int64_t columns, int64_t batch,
                                  Workspace& workspace) {
  if (x.rounded) return {x.rounded, x.row, x.transposed, x.stride};
  const int64_t size = rows * columns, copies = x.stride == 0 ? 1 : batch, stride = x.stride == 0 ? 0 : size;
  if (x.row == columns && x.stride == stride)
    return {round_numbers(x.data, copies * size, workspace), columns, x.transposed, stride};
  Bf16* rounded = workspace.take<Bf16>(copies * size);
  map(
      copies * size, CL_LAMBDA(int64_t i) {
        const int64_t at = i % size;
        rounded[i] = to_bf16(x.data[i / size * x.stride + at / columns * x.row + at % columns]);
      });
  return {rounded, columns, x.transposed, stride};
}

inline void multiply_rounded(const Product<float>& p) {
  Workspace workspace;
  const auto rounded = [&](const Matrix<float>& x, int64_t rows, int64_t columns) {
    return round_operand(x, x.transposed ? columns : rows, x.transposed ? rows : columns, p.batch, workspace);
  };
  blas(Product<Bf16, float>{.m = p.m,
                            .n = p.n,
                            .k = p.k,
                            .a = rounded(p.a, p.m, p.k),
                            .b = rounded(p.b, p.k, p.n),
                            .c = p.c,
                            .c_row = p.c_row,
                            .c_stride = p.c_stride,
                            .add = p.add,
                            .batch = p.batch});
}

template <class T>
void multiply(const Product<T>& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    if (precision() == Precision::bf16) return multiply_rounded(p);
  }
  blas(p);
}

}  // namespace copylab::cuda
