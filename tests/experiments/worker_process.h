// Runs made and worked on by tests: this test program is also the worker process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/io/hdf5.h"
#include "experiments/check/check_settings.h"
#include "experiments/config/resolve.h"
#include "experiments/schedule/process.h"
#include "experiments/store/run_folder.h"
#include "tests/temporary_folder.h"

namespace copylab::testing {

inline std::filesystem::path new_run(const TemporaryFolder& folder, const std::string& name,
                                     std::vector<std::string> changes = {}) {
  const std::filesystem::path run = folder / name;
  std::filesystem::create_directory(run);
  h5::write_text(RunFolder{run}.config(), to_yaml(check_settings(changes)));
  return run;
}

struct Ended {
  int exit_code;
  std::string out, error;  // error: the last line
};

// Runs this program as a worker; `during` is called about every 2 ms.
inline Ended work(const std::filesystem::path& run, const std::vector<std::string>& more = {},
                  const std::function<void(const Process&)>& during = {}) {
  std::vector<std::string> command = {this_program(), "worker", run.string()};
  command.insert(command.end(), more.begin(), more.end());
  Process process(command);
  Ended ended{};
  const auto collect = [&](const std::string& line, bool error) {
    if (error)
      ended.error = line;
    else
      ended.out += line + "\n";
  };
  while (!process.finished()) {
    if (during) during(process);
    process.read(collect);
    Process::wait({&process}, 2);
  }
  process.read(collect);
  ended.exit_code = process.exit_code();
  return ended;
}

}  // namespace copylab::testing
