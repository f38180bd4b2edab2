// The heads of the registry, one function per file of this folder, and what they share.
#pragma once

#include "core/nn/head.h"

namespace copylab::nn {

HeadEntry vanilla_head();
HeadEntry copy_paste_head();

// x (N, D) at `rows`; x itself where that is all of them.
Tensor select_rows(Tape& tape, const Tensor& x, const std::vector<int32_t>& rows);

}  // namespace copylab::nn
