// RunLock: a lock file made by link(), which is atomic on every file system, with the owner written in it.
#include "experiments/store/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "core/io/temporary.h"

namespace copylab {
namespace fs = std::filesystem;
namespace {

// When a process started, in clock ticks since boot: tells it from a later one with the same id. Empty when
// it is gone, or dead and only not yet waited for.
std::string start_time(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(in), {}};
  const size_t name_end = stat.rfind(')');  // the name may hold spaces and brackets
  if (name_end == std::string::npos) return "";
  std::istringstream rest(stat.substr(name_end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X") return "";
  return fields[19];
}

struct Owner {
  std::string host;
  pid_t pid = 0;
  std::string started;

  bool alive() const { return host != host_name() || start_time(pid) == started; }
  std::string text() const { return fmt::format("process {} on host {}", pid, host); }
};

std::optional<Owner> read_owner(const fs::path& file) {
  std::ifstream in(file);
  Owner owner;
  if (in >> owner.host >> owner.pid >> owner.started) return owner;
  return std::nullopt;
}

// Keeps two processes of one machine from judging the same stale lock at the same time. Where the file system
// has no flock the lock file alone must do.
class Critical {
 public:
  explicit Critical(const fs::path& folder)
      : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_ >= 0) flock(folder_, LOCK_EX);
  }
  ~Critical() {
    if (folder_ >= 0) close(folder_);
  }
  Critical(const Critical&) = delete;
  Critical& operator=(const Critical&) = delete;

 private:
  int folder_;
};

}  // namespace

RunLock::RunLock(const fs::path& folder) : file_(folder / "lock") {
  const Critical critical(folder);
  const fs::path mine = temporary_beside(file_);
  const Owner self{host_name(), getpid(), start_time(getpid())};
  errno = 0;
  std::ofstream out(mine);
  out << self.host << ' ' << self.pid << ' ' << self.started << std::endl;
  expect(out.good(), "store", "{}: cannot be locked: {}", folder.string(),
         errno != 0 ? std::strerror(errno) : "its lock file cannot be written");
  std::string problem;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (link(mine.c_str(), file_.c_str()) == 0) {
      problem.clear();
      break;
    }
    problem = std::strerror(errno);
    if (errno != EEXIST) break;
    const std::optional<Owner> owner = read_owner(file_);
    if (owner && owner->alive()) {
      unlink(mine.c_str());
      throw LockedError(
          fmt::format("[store] {}: in use by {}{}", folder.string(), owner->text(),
                      owner->host == self.host ? "" : "; if that has ended, delete " + file_.string()));
    }
    unlink(file_.c_str());
    took_over_ = true;
  }
  unlink(mine.c_str());
  expect(problem.empty(), "store", "{}: cannot be locked: {}", folder.string(), problem);
}

RunLock::~RunLock() {
  unlink(file_.c_str());
}

std::optional<std::string> RunLock::owner(const fs::path& folder) {
  const std::optional<Owner> owner = read_owner(folder / "lock");
  if (owner && owner->alive()) return owner->text();
  return std::nullopt;
}

}  // namespace copylab
