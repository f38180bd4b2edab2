// MetaAttention: causal attention among the meta-tokens of a sequence alone (papers: meta-tokens, §4.2).
#pragma once

#include <vector>

#include "core/nn/attention_layer.h"
#include "core/nn/model_input.h"
#include "core/nn/norm.h"

namespace copylab::nn {

// Where the meta-tokens of a batch stand, gathered for attention among them; made once for all blocks.
// Sequences with fewer meta-tokens than others have empty places at their end: these read some row of their
// sequence, nothing before them can see them, and what they compute is dropped.
struct MetaRows {
  int64_t count = 0;  // M, the most meta-tokens of any sequence; 0: there are none, and nothing below is
  Tensor from;        // (B·M) int32 rows of (B·T) to read
  Tensor to;          // (B·M) int32 rows to add to, -1 for an empty place
  Tensor positions;   // (B·M) int32 of these rows, as from Positions::indices
  Tensor segment;     // (B, M) int32, or undefined
  Tensor allowed;     // (B, M, M) uint8, or undefined
};
// `positions` (B·T) are those of all rows; in.meta undefined: there are none. With `dense` only `count` is
// filled in.
MetaRows meta_rows(Tape& tape, const ModelInput& in, const std::vector<int32_t>& positions, bool dense);

class MetaAttention {
 public:
  // Declares NAME.norm, NAME.q, NAME.k, NAME.v and NAME.o: in all 4 D² more per block, as in the paper's 152
  // against 124 million. o has no bias, so that a row that sees nothing gets exactly 0.
  MetaAttention(Parameters& parameters, const std::string& name, const AttentionShape& shape,
                const NormOptions& norm, Init init, Init residual, bool bias);

  // What the block adds to x (B·T, D), for rows.count > 0: o(attention(norm(x))) in the rows of meta-tokens,
  // 0 in the others. The paper has LayerNorm after the attention; here it stands before it, like every norm
  // of these blocks, so that a block without meta-tokens is the same function as one without meta-attention.
  // Every meta-token sees all earlier ones of its document, whatever window the self-attention has.
  //
  // Gathered, at a cost of O(M²) a sequence. With `dense` all rows are projected and masked, O(T²); so they
  // are for a probe of NAME.probs, the weights (B, H, T, T). Both give the same up to rounding.
  Tensor operator()(Tape& tape, const Tensor& x, const ModelInput& in, const MetaRows& rows,
                    const Positions& encoding, const Tensor& positions, bool dense) const;

 private:
  std::string name_;
  Norm norm_;
  AttentionLayer attention_;
};

}  // namespace copylab::nn
