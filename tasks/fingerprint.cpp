// A hash of a task's first sequences, which changes when a batch changes: what tests keep as a golden value.
#include "tasks/fingerprint.h"

namespace copylab {

uint64_t fingerprint(const Batch& batch) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const auto* part : {&batch.tokens, &batch.targets, &batch.segment, &batch.slice, &batch.bytes})
    for (const int32_t value : *part)
      for (int shift = 0; shift < 32; shift += 8)
        hash = (hash ^ (static_cast<uint32_t>(value) >> shift & 0xff)) * 0x100000001b3ull;
  for (const uint8_t value : batch.meta) hash = (hash ^ value) * 0x100000001b3ull;
  return hash;
}

uint64_t fingerprint(const Task& task, Split split, uint64_t seed, int64_t rows) {
  return fingerprint(task.batch(split, seed, 0, rows));
}

}  // namespace copylab
