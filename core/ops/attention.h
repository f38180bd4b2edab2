// attention: causal self-attention with a window, shared key/value heads, and masks.
#pragma once

#include <string>

#include "core/tape.h"

namespace copylab::ops {

// Optional tensors are constants: no gradient flows into them.
struct AttentionOptions {
  int64_t window = 0;  // position t sees t-window+1..t; 0 = all of the past
  double scale = 0;    // of q·k; 0 = head_dim^-1/2
  Tensor bias;         // (T, T) added to the scaled scores
  Tensor allowed;      // (B, T, T) uint8, nonzero where row t may see column j
  Tensor marked;       // (B, T) uint8, attention only among nonzero positions (papers: meta-attention, §4.2)
  Tensor segment;      // (B, T) int32, attention only within equal values (documents)
  std::string probe;   // name under which a probe may ask for the probabilities (B, H, T, T)
  std::string
      probe_lse;  // likewise for the log-sum-exp of each row's scores (B, H, T); -inf: it sees nothing
};

// q (B, T, H, d); k, v (B, T, G, d) with G dividing H: query head h reads key/value head h / (H/G).
// -> (B, T, H, d): softmax(scale·q·kᵀ + bias, over what the row may see)·v; 0 for a row that sees nothing.
Tensor attention(Tape& tape, const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

}  // namespace copylab::ops
