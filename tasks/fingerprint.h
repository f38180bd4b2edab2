// A hash of a task's first sequences, which changes when a batch changes: what tests keep as a golden value.
#pragma once

#include "tasks/task.h"

namespace copylab {

// FNV-1a over the little-endian bytes of tokens, targets, segment, slice, bytes and meta of one batch.
uint64_t fingerprint(const Batch& batch);

// That of the first `rows` sequences of a split.
uint64_t fingerprint(const Task& task, Split split, uint64_t seed, int64_t rows = 256);

}  // namespace copylab
