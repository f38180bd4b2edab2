// All kernels of core/kernels.h in the language of device code.
#pragma once

#include "core/cuda/kernels/attention.h"
#include "core/cuda/kernels/copy_mixture.h"
#include "core/cuda/kernels/elementwise.h"
#include "core/cuda/kernels/linear.h"
#include "core/cuda/kernels/lm_head.h"
#include "core/cuda/kernels/lstm.h"
#include "core/cuda/kernels/norms.h"
#include "core/cuda/kernels/optim.h"
#include "core/cuda/kernels/pointer.h"
#include "core/cuda/kernels/reduce.h"
#include "core/cuda/kernels/rope.h"
#include "core/cuda/kernels/rows.h"

namespace copylab::cuda {

template <class T>
KernelTable<T> kernel_table() {
  KernelTable<T> k{};
  fill_linear(k);
  fill_lm_head(k);
  fill_rows(k);
  fill_norms(k);
  fill_rope(k);
  fill_attention(k);
  fill_pointer(k);
  fill_copy_mixture(k);
  fill_lstm(k);
  fill_elementwise(k);
  fill_reduce(k);
  fill_optim(k);
  return k;
}

}  // namespace copylab::cuda
