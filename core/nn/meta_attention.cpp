// MetaAttention: gather the rows of meta-tokens, attend, put them back.
#include "core/nn/meta_attention.h"

#include <algorithm>

#include "core/ops/gather_rows.h"
#include "core/ops/scatter_rows.h"

namespace copylab::nn {

MetaRows meta_rows(Tape& tape, const ModelInput& in, const std::vector<int32_t>& positions, bool dense) {
  MetaRows out;
  if (!in.meta) return out;
  const int64_t batch = in.tokens.dim(0), length = in.tokens.dim(1);
  expect(in.meta.shape() == in.tokens.shape() && in.meta.dtype() == DType::u8, "meta_attention",
         "meta uint8 {} expected: got {} {}", in.tokens.shape().str(), name_of(in.meta.dtype()),
         in.meta.shape().str());
  const std::vector<uint8_t> flags = to_host<uint8_t>(tape.backend(), in.meta);
  std::vector<std::vector<int32_t>> places(batch);  // rows of meta-tokens, by sequence
  for (int64_t i = 0; i < batch * length; ++i)
    if (flags[i]) places[i / length].push_back(static_cast<int32_t>(i));
  for (const auto& of_sequence : places)
    out.count = std::max(out.count, static_cast<int64_t>(of_sequence.size()));
  const int64_t m = out.count, n = batch * m;
  if (m == 0 || dense) return out;

  std::vector<int32_t> from(n), to(n, -1), at(n);
  for (int64_t b = 0; b < batch; ++b) {
    const auto& rows = places[b];
    for (int64_t i = 0; i < m; ++i) {
      const bool real = i < static_cast<int64_t>(rows.size());
      const int64_t row = real ? rows[i] : b * length;
      from[b * m + i] = static_cast<int32_t>(row);
      if (real) to[b * m + i] = static_cast<int32_t>(row);
      at[b * m + i] = positions[row];
    }
  }
  out.from = tape.constant(from, {n});
  out.to = tape.constant(to, {n});
  out.positions = tape.constant(at, {n});
  if (in.segment) {
    const std::vector<int32_t> all = to_host<int32_t>(tape.backend(), in.segment);
    std::vector<int32_t> segment(n);
    for (int64_t i = 0; i < n; ++i) segment[i] = all[from[i]];
    out.segment = tape.constant(segment, {batch, m});
  }
  if (const Tensor& allowed = in.intervention.allowed) {
    const std::vector<uint8_t> all = to_host<uint8_t>(tape.backend(), allowed);
    std::vector<uint8_t> kept(n * m);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) kept[i * m + j] = all[from[i] * length + from[i / m * m + j] % length];
    out.allowed = tape.constant(kept, {batch, m, m});
  }
  return out;
}

MetaAttention::MetaAttention(Parameters& parameters, const std::string& name, const AttentionShape& shape,
                             const NormOptions& norm, Init init, Init residual, bool bias)
    : name_(name),
      norm_(parameters, name + ".norm", shape.dim, norm),
      attention_(parameters, name, shape, init, residual, bias, false) {}

Tensor MetaAttention::operator()(Tape& tape, const Tensor& x, const ModelInput& in, const MetaRows& rows,
                                 const Positions& encoding, const Tensor& positions, bool dense) const {
  const int64_t batch = in.tokens.dim(0), length = in.tokens.dim(1);
  ops::AttentionOptions options;
  options.probe = name_ + ".probs";
  if (dense || tape.probing(options.probe)) {
    options.marked = in.meta;
    options.segment = in.segment;
    options.allowed = in.intervention.allowed;
    return attention_(tape, norm_(tape, x), batch, length, encoding, positions, options);
  }
  options.probe.clear();
  options.segment = rows.segment;
  options.allowed = rows.allowed;
  const Tensor own = norm_(tape, ops::gather_rows(tape, x, rows.from));  // (B·M, D)
  const Tensor attended = attention_(tape, own, batch, rows.count, encoding, rows.positions, options);
  return ops::scatter_rows(tape, attended, rows.to, batch * length);
}

}  // namespace copylab::nn
