// The CPU backend's kernels, one filling function per file of this folder.
#pragma once

#include "core/kernels.h"

namespace copylab::cpu {

// Each is instantiated for float and double in the file of its name.
template <class T>
void fill_linear(KernelTable<T>&);  // linear
template <class T>
void fill_lm_head(KernelTable<T>&);  // lm_head
template <class T>
void fill_rows(KernelTable<T>&);  // embedding, gather_rows, scatter_rows_add
template <class T>
void fill_norms(KernelTable<T>&);  // rms_norm, layer_norm
template <class T>
void fill_rope(KernelTable<T>&);  // rope
template <class T>
void fill_attention(KernelTable<T>&);  // attention
template <class T>
void fill_pointer(KernelTable<T>&);  // pointer
template <class T>
void fill_copy_mixture(KernelTable<T>&);  // copy_mixture
template <class T>
void fill_lstm(KernelTable<T>&);  // lstm
template <class T>
void fill_elementwise(KernelTable<T>&);  // swiglu, unary, binary, affine, scale_by, dropout, ...
template <class T>
void fill_reduce(KernelTable<T>&);  // weighted_sum, sum_of_squares, all_finite, project_rows
template <class T>
void fill_optim(KernelTable<T>&);  // adamw, sgd

}  // namespace copylab::cpu
