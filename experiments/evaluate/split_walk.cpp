// SplitWalk: independent sequences joined to batches, or the stretches of lanes in their order.
#include "experiments/evaluate/split_walk.h"

#include <algorithm>

namespace copylab {
namespace {

Batch sequences_of(const Task& task, Split split, uint64_t seed, int64_t first, int64_t count) {
  Batch all;
  for (int64_t n = first; n < first + count; ++n) {
    const Batch one = task.batch(split, seed, n, 1);
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(all.tokens, one.tokens);
    append(all.targets, one.targets);
    append(all.segment, one.segment);
    append(all.slice, one.slice);
    append(all.bytes, one.bytes);
    append(all.meta, one.meta);
    all.length = one.length;
  }
  all.rows = count;
  return all;
}

}  // namespace

SplitWalk::SplitWalk(const Task& task, Split split, uint64_t seed, int64_t sequences, int64_t rows)
    : task_(task), split_(split), seed_(seed), wanted_(sequences), rows_(rows) {}

bool SplitWalk::next() {
  if (done_ >= wanted_) return false;
  const int64_t lanes = task_.lanes();
  if (lanes > 0) {
    batch_ = task_.batch(split_, seed_, done_ / lanes, lanes);
    done_ += lanes;
    return labelled();
  }
  const int64_t count = std::min(rows_, wanted_ - done_);
  batch_ = sequences_of(task_, split_, seed_, done_, count);
  done_ += count;
  return true;
}

bool SplitWalk::labelled() const {
  return std::any_of(batch_.targets.begin(), batch_.targets.end(), [](int32_t t) { return t >= 0; });
}

nn::ModelInput SplitWalk::input(Tape& tape) {
  return model_input(tape, batch_, carry());
}

nn::ModelInput model_input(Tape& tape, const Batch& batch, nn::Carry* carry) {
  const Shape shape{batch.rows, batch.length};
  nn::ModelInput in;
  in.tokens = tape.constant(batch.tokens, shape);
  in.targets = tape.constant(batch.targets, shape);
  if (!batch.segment.empty()) in.segment = tape.constant(batch.segment, shape);
  if (!batch.meta.empty()) in.meta = tape.constant(batch.meta, shape);
  if (carry && batch.fresh) carry->clear();
  in.carry = carry;
  in.advance = batch.advance;
  return in;
}

}  // namespace copylab
