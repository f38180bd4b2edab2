// Provenance: facts about the build are compiled in, facts about the machine are read from it.
#include "experiments/store/provenance.h"

#include <ctime>
#include <fstream>

#include "source_version.h"

namespace copylab {
namespace {

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::map<std::string, h5::Attribute> provenance(const std::string& device, int threads) {
  return {
      {"git_commit", std::string(COPYLAB_GIT_COMMIT)},
      {"git_dirty", COPYLAB_GIT_DIRTY},
      {"compiler", std::string(COPYLAB_COMPILER)},
      {"flags", std::string(COPYLAB_FLAGS)},
      {"build_type", std::string(COPYLAB_BUILD_TYPE)},
      {"hdf5", h5::library_version()},
      {"processor", processor_name()},
      {"device", device},
      {"threads", int64_t{threads}},
      {"started", utc_now()},
  };
}

}  // namespace copylab
