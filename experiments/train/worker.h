// Worker: carries one run from whatever state its folder is in to DONE.
#pragma once

#include <filesystem>

namespace copylab {

// Exit codes: 0 done; 1 failed (reason on stderr and in FAILED); 2 config.yaml is wrong; 4 another process
// works in the folder; 130 interrupted and resumable. `run` holds config.yaml; `parent` is the folder of the
// run whose final weights this one starts from, or empty. Progress goes to stdout, one JSON object per line:
// {"phase":"train","step":10,"steps":300,"loss":1.25,"tokens_per_s":81000}.
int run_worker(const std::filesystem::path& run, const std::filesystem::path& parent);

}  // namespace copylab
