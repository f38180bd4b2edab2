// pointer: attention of a copy head over past positions and a sink, and its mass on the target token.
#pragma once

#include <string>

#include "core/tape.h"

namespace copylab::ops {

struct PointerOptions {
  int64_t window = 0;         // only keys t-window+1..t; 0 = all of the past
  bool next_token = false;    // key j stands for the token after it instead of the token at it
  bool copy_self = false;     // position t may point at its own token
  double scale = 0;           // of q·k; 0 = d^-1/2
  Tensor segment;             // (B, M+T) int32: only keys of the row's own segment (document)
  bool want_weights = false;  // fill PointerResult::weights
  std::string probe;          // name under which a probe may ask for the weights
};

struct PointerResult {
  Tensor log_copy;  // (B, T) log of the mass on positions whose token is the target; -inf if there is none
  Tensor log_sink;  // (B, T) log of the sink's mass; 0 for a row without any source; -inf without a sink
  Tensor weights;   // (B, T, M+T) mass of row t on the token at key p, no gradient; if asked for
};

// q (B, T, d); k (B, M+T, d): keys may reach further back than the rows, row t standing at key M+t; sink
// (B, T) the sink's score, already scaled, or undefined; tokens (B, M+T) int32, negative at keys that are
// empty; targets (B, T) int32, a negative one matching nothing. Papers: CPLM §2.3, PSM §3.1.
PointerResult pointer(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& sink, const Tensor& tokens,
                      const Tensor& targets, const PointerOptions& options = {});

}  // namespace copylab::ops
