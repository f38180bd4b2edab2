// Settings of the small runs that checks are made on.
#pragma once

#include <string>
#include <vector>

#include "core/settings.h"

namespace copylab {

// A run of seconds that uses what a run may use: SpamLang with 64 symbols, one block of width 16, dropout,
// accumulation, a warm-up and evaluations. `changes` ("head.kind=vanilla") come on top.
Settings check_settings(const std::vector<std::string>& changes = {});

// Changes that make it an LSTM with dropout, zoneout and a pointer sentinel on four streams of bytes, whose
// state and memory go from batch to batch.
std::vector<std::string> stream_changes();

}  // namespace copylab
