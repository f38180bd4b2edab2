// RunFolder: the files of one run, and what state they say it is in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/settings.h"

namespace copylab {

enum class RunState { missing, partial, running, failed, done };
const char* name_of(RunState state);

// Names of the files, nothing else: cheap to make and to copy.
struct RunFolder {
  std::filesystem::path path;

  std::filesystem::path config() const { return path / "config.yaml"; }
  std::filesystem::path metrics() const { return path / "metrics.h5"; }
  std::filesystem::path checkpoint() const { return path / "checkpoint.h5"; }
  std::filesystem::path first_checkpoint() const { return kept_checkpoint(0); }
  std::filesystem::path kept_checkpoint(int64_t step) const;
  // Those that train.keep and train.keep_ends left, by step.
  std::map<int64_t, std::filesystem::path> kept_checkpoints() const;
  std::filesystem::path journal() const { return path / "journal.bin"; }
  std::filesystem::path log() const { return path / "run.log"; }
  std::filesystem::path done() const { return path / "DONE"; }
  std::filesystem::path failed() const { return path / "FAILED"; }

  // DONE names the content of metrics.h5, so that a later change of either is seen.
  bool trained() const;                            // DONE is there and names the present metrics.h5
  void write_done() const;                         // last step of a run
  void append_log(const std::string& line) const;  // with the time; failures to log are ignored
  std::string failure() const;                     // the message in FAILED, or ""
};

// done: DONE is valid and every measure of config.yaml's run.measures is stored, computed with its settings.
RunState run_state(const std::filesystem::path& run);
inline bool is_done(const std::filesystem::path& run) {
  return run_state(run) == RunState::done;
}

// A number of a run's metrics.h5 (see store/metrics.h), or nothing.
std::optional<double> read_metric(const std::filesystem::path& run, const std::string& name);

// "measure.NAME.*" of the settings as canonical text: what a stored result was computed with.
std::string measure_settings(const Settings& settings, const std::string& measure);

}  // namespace copylab
