// The check behind `copylab check threads`: training gives the same bits for any number of threads.
#pragma once

#include <ostream>

#include "core/settings.h"

namespace copylab {

// The hash of `updates` updates (training_hash.h) with this many threads on the CPU.
uint64_t hash_with_threads(const Settings& settings, int64_t updates, int threads);

// Prints hashes for 1, 2 and 3 threads, for each head. Returns 0 if they agree, else 3.
int check_threads(std::ostream& out);

}  // namespace copylab
