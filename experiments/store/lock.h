// RunLock: at most one process works in a run's folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/error.h"

namespace copylab {

// The folder is in use; the message says by whom. Exit code 4 of a worker.
class LockedError : public Error {
 public:
  using Error::Error;
};

// Holds FOLDER/lock, a text file with the owner's host, process id and start time, until destruction. The
// lock of a process of this machine that is gone is taken over.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder);  // throws LockedError
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  bool took_over() const { return took_over_; }  // from an owner that is gone
  // "process 12 on host a", or nothing if nobody alive holds the folder's lock.
  static std::optional<std::string> owner(const std::filesystem::path& folder);

 private:
  std::filesystem::path file_;
  bool took_over_ = false;
};

}  // namespace copylab
