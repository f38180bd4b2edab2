// ModelInput: one batch as a model reads it, backbone and head alike.
#pragma once

#include "core/nn/carry.h"
#include "core/tensor.h"

namespace copylab::nn {

// What a trained model is kept from using (papers: M14, M15, M24). An undefined tensor keeps it from nothing.
struct Intervention {
  // (B, T) uint8, nonzero: the position carries no positional encoding. Rotary: its queries and keys, of
  // self- and meta-attention, are not turned, as if it stood at position 0. Learned: no vector is added.
  Tensor zero_position;
  Tensor zero_embedding;  // (B, T) uint8, nonzero: the token's embedding is 0
  Tensor allowed;  // (B, T, T) uint8, nonzero where row t may see column j, in self- and meta-attention
};

struct ModelInput {
  Tensor tokens;              // (B, T) int32
  Tensor targets;             // (B, T) int32, negative = no label
  Tensor segment;             // (B, T) int32, or undefined: one document per sequence
  Tensor meta;                // (B, T) uint8, nonzero at meta-tokens, or undefined: there are none
  Intervention intervention;  // on the backbone; a head's pointer knows nothing of it
  bool want_argmax = false;   // evaluation: fill the argmax outputs
  // Decoding: least share of the LM head in the natural argmax of a head with a pointer, whose shares shrink
  // to make room. Losses do not know of it.
  double lm_floor = 0;
  // Streams: what the lanes remember, replaced by what they remember `advance` positions later. Null: start
  // from zero and forget.
  Carry* carry = nullptr;
  int64_t advance = 0;  // positions by which the next batch starts later than this one; 0 = T
};

}  // namespace copylab::nn
