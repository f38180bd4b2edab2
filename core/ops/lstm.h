// lstm: one layer of long short-term memory over a sequence.
#pragma once

#include "core/tape.h"

namespace copylab::ops {

struct LstmResult {
  Tensor h;               // (B, T, H)
  Tensor h_last, c_last;  // (B, H) hidden and cell state after the last step
  Tensor c;               // (B, T, H) cell states, no gradient
};

// Rates of zoneout (Krueger et al. 2017) on the hidden and the cell state: while training, a unit keeps its
// old value with that probability, by the next stream of the tape's purpose "zoneout"; otherwise each keeps
// that share of it.
struct ZoneoutRates {
  double h = 0, c = 0;
};

// x (B, T, I), w_ih (4H, I), w_hh (4H, H); b_ih, b_hh (4H) and the first states h0, c0 (B, H) may be
// undefined, which is 0. Gate order i, f, g, o as in PyTorch: c_t = σ(f)·c_{t-1} + σ(i)·tanh(g), h_t =
// σ(o)·tanh(c_t), gates = W_ih·x_t + b_ih + W_hh·h_{t-1} + b_hh. Throws Error for shapes that do not
// fit and rates outside of [0, 1).
LstmResult lstm(Tape& tape, const Tensor& x, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih = {},
                const Tensor& b_hh = {}, const Tensor& h0 = {}, const Tensor& c0 = {},
                ZoneoutRates zoneout = {});

}  // namespace copylab::ops
