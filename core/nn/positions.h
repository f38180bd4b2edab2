// Positions: how a transformer knows the order of its tokens: rotary angles, learned vectors, or not at all.
#pragma once

#include <optional>
#include <vector>

#include "core/nn/parameters.h"
#include "core/ops/rope.h"

namespace copylab::nn {

enum class PositionKind { rope, learned, none };

struct PositionOptions {
  PositionKind kind = PositionKind::rope;
  double rope_theta = 10000.0;
  std::optional<ops::Yarn> yarn;  // rope: context extension
  int64_t max_positions = 0;      // rows of the table, 0 = the length that the model is built for
};

class Positions {
 public:
  // Learned: declares pos_embed.weight (max_positions, D). Rows that no training sequence reaches get no
  // gradient and no weight decay, and so keep their initial values: what a model that reads longer sequences
  // than it was trained on then adds is noise, as in GPT-2.
  Positions(Parameters& parameters, const PositionOptions& options, int64_t dim, int64_t head_dim,
            int64_t max_length, Init init);

  // Indices (B·T) of a batch's positions, each sequence from 0. Where `zero` (B, T) uint8 is nonzero a
  // position carries no encoding: index 0 where angles are looked up (no rotation), -1 where vectors are
  // (none is added). `zero` may be undefined. Throws Error for sequences beyond the table.
  std::vector<int32_t> indices(Tape& tape, int64_t batch, int64_t length, const Tensor& zero) const;

  // Learned: x (N, D) plus the vectors of positions (N) int32; else x.
  Tensor add_to(Tape& tape, const Tensor& x, const Tensor& positions) const;
  // Rotary: queries or keys x (…, H, d) turned by the angles of positions; else x.
  Tensor turn(Tape& tape, const Tensor& x, const Tensor& positions) const;

  PositionKind kind() const { return options_.kind; }

 private:
  PositionOptions options_;
  int64_t rows_;                        // of the table
  std::optional<ops::RopeTable> rope_;  // rope
  const Tensor* table_ = nullptr;       // learned
};

}  // namespace copylab::nn
