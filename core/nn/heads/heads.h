// The heads of the registry, one function per file of this folder, and what they share.
#pragma once

#include "core/nn/head.h"

namespace copylab::nn {

HeadEntry vanilla_head();
HeadEntry copy_paste_head();
HeadEntry mixture_of_softmaxes_head();
HeadEntry pointer_sentinel_head();

// x (N, D) at `rows`; x itself where that is all of them.
Tensor select_rows(Tape& tape, const Tensor& x, const std::vector<int32_t>& rows);
// Column c of x (N, K) -> (N).
Tensor column(Tape& tape, const Tensor& x, int64_t c);
// The sum of two losses of one shape, either of which may be undefined.
Tensor add_losses(Tape& tape, const Tensor& a, const Tensor& b);
// Keys that a pointer compares with on average over a sequence, position t seeing t + 1 of them, at most
// `window` (0 = all).
double mean_keys(int64_t length, int64_t window);

}  // namespace copylab::nn
