// The check behind `copylab check threads`: training gives the same bits for any number of threads.
#pragma once

#include <cstdint>
#include <ostream>

#include "core/settings.h"

namespace copylab {

// Trains `steps` updates with this many threads; the hash is of all weights and losses.
uint64_t training_hash(const Settings& settings, int64_t steps, int threads);

// Prints hashes for 1, 2 and 3 threads, for each head. Returns 0 if they agree, else 3.
int check_threads(std::ostream& out);

}  // namespace copylab
