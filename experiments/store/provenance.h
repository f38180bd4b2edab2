// Provenance: where a result comes from: source version, compiler, machine, time.
#pragma once

#include <map>
#include <string>

#include "core/io/hdf5.h"

namespace copylab {

// git_commit, git_dirty, compiler, flags, build_type, hdf5 of this build; processor, device and threads of
// this process; started (UTC). They become root attributes of metrics.h5.
std::map<std::string, h5::Attribute> provenance(const std::string& device, int threads);

std::string utc_now();  // "2026-11-30T18:31:50Z"

}  // namespace copylab
