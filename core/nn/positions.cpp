// Positions: a table of angles or of learned vectors, looked up by position.
#include "core/nn/positions.h"

#include <algorithm>
#include <numeric>

#include "core/ops/elementwise.h"
#include "core/ops/gather_rows.h"

namespace copylab::nn {
namespace {

// Rotary: sequences may be this many times longer than the length that the model was built for, at positions
// that no training has seen; the table of angles is small.
constexpr int64_t kReach = 4;

int64_t table_rows(const PositionOptions& options, int64_t max_length) {
  if (options.kind == PositionKind::rope) return std::max(kReach * max_length, options.max_positions);
  return options.max_positions > 0 ? options.max_positions : max_length;
}

}  // namespace

Positions::Positions(Parameters& parameters, const PositionOptions& options, int64_t dim, int64_t head_dim,
                     int64_t max_length, Init init)
    : options_(options), rows_(table_rows(options, max_length)) {
  if (options_.kind == PositionKind::rope)
    rope_.emplace(parameters.backend(), parameters.dtype(), head_dim, options_.rope_theta, rows_,
                  options_.yarn);
  if (options_.kind == PositionKind::learned) {
    expect(rows_ >= max_length, "positions",
           "model.max_positions = {} learned positions are fewer than the {} of a sequence", rows_,
           max_length);
    table_ = &parameters.add("pos_embed.weight", {rows_, dim}, init, false);
  }
}

std::vector<int32_t> Positions::indices(Tape& tape, int64_t batch, int64_t length, const Tensor& zero) const {
  expect(options_.kind == PositionKind::none || length <= rows_, "positions",
         "sequences of at most {} tokens expected, the model's table of positions (model.max_positions): got "
         "{}",
         rows_, length);
  std::vector<int32_t> out(batch * length);
  for (int64_t b = 0; b < batch; ++b) std::iota(out.begin() + b * length, out.begin() + (b + 1) * length, 0);
  if (!zero) return out;
  expect(zero.shape() == Shape{batch, length} && zero.dtype() == DType::u8, "positions",
         "zero_position uint8 ({}, {}) expected: got {} {}", batch, length, name_of(zero.dtype()),
         zero.shape().str());
  const std::vector<uint8_t> flags = to_host<uint8_t>(tape.backend(), zero);
  const int32_t nothing = options_.kind == PositionKind::learned ? -1 : 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (flags[i]) out[i] = nothing;
  return out;
}

Tensor Positions::add_to(Tape& tape, const Tensor& x, const Tensor& positions) const {
  if (options_.kind != PositionKind::learned) return x;
  return ops::add(tape, x, ops::gather_rows(tape, *table_, positions));
}

Tensor Positions::turn(Tape& tape, const Tensor& x, const Tensor& positions) const {
  return rope_ ? ops::rope(tape, x, *rope_, positions) : x;
}

}  // namespace copylab::nn
