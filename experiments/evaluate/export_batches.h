// The exact batches that a run trains or is tested on, as arrays in a file.
#pragma once

#include <filesystem>

#include "core/settings.h"
#include "tasks/task.h"

namespace copylab {

// Batches of updates first..last-1 (0 is the first update) as /tokens and /targets (steps, B, T), where B
// counts all sequences of an update; /segment, /slice, /bytes and /meta where the task has them; the names of
// slices as an attribute. Of a stream task also /fresh and /advance (steps): whether the streams start anew
// there, and by how many positions they move on to the next step. For the validation and test splits an
// "update" is a batch of as many sequences.
void export_batches(const Settings& settings, Split split, int64_t first, int64_t last,
                    const std::filesystem::path& out);

}  // namespace copylab
