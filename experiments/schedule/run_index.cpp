// Finding of runs by id and by name.
#include "experiments/schedule/run_index.h"

#include <algorithm>

#include "core/nearest.h"
#include "experiments/config/error.h"
#include "experiments/store/run_folder.h"

namespace copylab {
namespace fs = std::filesystem;

std::optional<std::string> id_of_folder(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (name.size() < 10 || name[name.size() - 9] != '-') return std::nullopt;
  const std::string id = name.substr(name.size() - 8);
  const bool hex = id.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex ? std::optional<std::string>(id) : std::nullopt;
}

RunIndex::RunIndex(fs::path root) : root_(std::move(root)) {
  if (!fs::is_directory(root_)) return;
  for (const auto& experiment : fs::directory_iterator(root_)) {
    if (!experiment.is_directory()) continue;
    for (const auto& run : fs::directory_iterator(experiment.path())) {
      if (!run.is_directory()) continue;
      if (const auto id = id_of_folder(run.path())) runs_[*id].push_back(run.path());
    }
  }
  for (auto& [id, folders] : runs_) std::sort(folders.begin(), folders.end());
}

std::vector<fs::path> RunIndex::folders(const std::string& id) const {
  const auto it = runs_.find(id);
  return it == runs_.end() ? std::vector<fs::path>() : it->second;
}

fs::path RunIndex::choose(const std::string& id, const fs::path& preferred) const {
  const std::vector<fs::path> found = folders(id);
  for (const fs::path& folder : found) {
    if (RunFolder{folder}.trained()) return folder;
  }
  if (found.empty() || std::find(found.begin(), found.end(), preferred) != found.end()) return preferred;
  return found.front();
}

fs::path find_run(const fs::path& root, const std::string& name) {
  if (fs::exists(fs::path(name) / "config.yaml")) return name;
  std::vector<fs::path> found;
  std::vector<std::string> names;
  const RunIndex index(root);
  for (const auto& [id, folders] : index.all()) {
    for (const fs::path& folder : folders) {
      const std::string text = folder.parent_path().filename().string() + "/" + folder.filename().string();
      names.push_back(text);
      if (text.find(name) != std::string::npos) found.push_back(folder);
    }
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    throw ConfigError(fmt::format("'{}': expected a run's folder or a part of its name below {}{}", name,
                                  root.string(), did_you_mean(name, names)));
  }
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(found.size(), 5); ++i) list += " " + found[i].filename().string();
  throw ConfigError(
      fmt::format("'{}' is a part of {} runs' names: expected one; for example{}", name, found.size(), list));
}

}  // namespace copylab
