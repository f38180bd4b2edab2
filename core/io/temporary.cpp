// Temporary files: names that say whose they are.
#include "core/io/temporary.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <system_error>

namespace copylab {
namespace fs = std::filesystem;
namespace {

// What the names of this host's temporary files hold before the process id.
std::string mark() {
  return ".tmp-" + host_name() + "-";
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

fs::path temporary_beside(const fs::path& path) {
  return path.parent_path() / ("." + path.filename().string() + mark() + std::to_string(getpid()));
}

void remove_leftovers(const fs::path& folder) {
  const std::string own = mark();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const size_t at = name.rfind(own);
    if (name[0] != '.' || at == std::string::npos) continue;
    pid_t process = 0;
    const char* end = name.data() + name.size();
    const auto [last, problem] = std::from_chars(name.data() + at + own.size(), end, process);
    if (problem != std::errc() || last != end || process <= 0) continue;
    if (kill(process, 0) != 0 && errno == ESRCH) fs::remove(entry.path(), error);
  }
}

}  // namespace copylab
