// RunFolder: states and small files of a run's folder.
#include "experiments/store/run_folder.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "core/io/hdf5.h"
#include "core/random.h"
#include "experiments/config/resolve.h"
#include "experiments/config/run_fields.h"
#include "experiments/config/schema.h"
#include "experiments/config/values.h"
#include "experiments/store/lock.h"
#include "experiments/store/metrics.h"
#include "experiments/store/provenance.h"

namespace copylab {
namespace fs = std::filesystem;
namespace {

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string done_text(const fs::path& metrics) {
  return fmt::format("metrics.h5 fnv1a64 {:016x}\n", hash_name(read_text(metrics)));
}

bool has_all_measures(const RunFolder& folder) {
  const Settings settings = load_settings(folder.config());
  const h5::File file = h5::File::open(folder.metrics());
  for (const std::string& name : measure_names(settings.text("run.measures"))) {
    const std::string group = "eval/" + name;
    if (!file.has_attribute(group, "settings") ||
        file.attribute_as<std::string>(group, "settings") != measure_settings(settings, name))
      return false;
  }
  return true;
}

}  // namespace

const char* name_of(RunState state) {
  switch (state) {
    case RunState::missing:
      return "missing";
    case RunState::partial:
      return "partial";
    case RunState::running:
      return "running";
    case RunState::failed:
      return "failed";
    case RunState::done:
      break;
  }
  return "done";
}

fs::path RunFolder::kept_checkpoint(int64_t step) const {
  return path / fmt::format("checkpoint-{}.h5", step);
}

std::map<int64_t, fs::path> RunFolder::kept_checkpoints() const {
  std::map<int64_t, fs::path> kept;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    int64_t step = 0;
    int end = 0;
    if (std::sscanf(name.c_str(), "checkpoint-%" SCNd64 ".h5%n", &step, &end) == 1 &&
        end == static_cast<int>(name.size()))
      kept[step] = entry.path();
  }
  return kept;
}

bool RunFolder::trained() const {
  return fs::exists(done()) && fs::exists(metrics()) && read_text(done()) == done_text(metrics());
}

void RunFolder::write_done() const {
  h5::write_text(done(), done_text(metrics()));
}

void RunFolder::append_log(const std::string& line) const {
  std::ofstream(log(), std::ios::app) << utc_now() << ' ' << line << '\n';
}

std::string RunFolder::failure() const {
  std::string text = read_text(failed());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

RunState run_state(const fs::path& run) {
  const RunFolder folder{run};
  if (!fs::exists(folder.config())) return RunState::missing;
  if (folder.trained() && has_all_measures(folder)) return RunState::done;
  if (RunLock::owner(run)) return RunState::running;
  return fs::exists(folder.failed()) ? RunState::failed : RunState::partial;
}

std::optional<double> read_metric(const fs::path& run, const std::string& name) {
  const RunFolder folder{run};
  if (!fs::exists(folder.metrics())) return std::nullopt;
  return read_metric(h5::File::open(folder.metrics()), name);
}

std::string measure_settings(const Settings& settings, const std::string& measure) {
  const std::string prefix = "measure." + measure + ".";
  std::string text;
  const Choice* choice = Catalogue::installed().measure(measure);
  for (const auto& [path, value] : settings.values()) {
    if (path.rfind(prefix, 0) != 0) continue;
    // Results from before a field existed are those of its default.
    const auto at_default = [&, &path = path, &value = value](const Field& field) {
      return field.path == path && field.later && value == field.fallback;
    };
    if (choice && std::any_of(choice->fields.begin(), choice->fields.end(), at_default)) continue;
    text += path.substr(prefix.size()) + "=" + format_value(value) + "\n";
  }
  return text;
}

}  // namespace copylab
