// RunIndex: which runs are below a results folder, by id.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace copylab {

class RunIndex {
 public:
  // Looks at ROOT/<experiment>/<cell>-<id8>/ once; an absent root has no runs.
  explicit RunIndex(std::filesystem::path root);

  const std::filesystem::path& root() const { return root_; }
  // All folders of an id, sorted.
  std::vector<std::filesystem::path> folders(const std::string& id) const;
  // The folder to work in: a done one, else the one preferred if it exists, else any, else the preferred.
  std::filesystem::path choose(const std::string& id, const std::filesystem::path& preferred) const;
  const std::map<std::string, std::vector<std::filesystem::path>>& all() const { return runs_; }

 private:
  std::filesystem::path root_;
  std::map<std::string, std::vector<std::filesystem::path>> runs_;
};

// The id in a folder's name, or nothing if it is not the name of a run.
std::optional<std::string> id_of_folder(const std::filesystem::path& folder);

// A run as the user names it: a folder, or a part of the name of exactly one below the root. Throws
// ConfigError that lists the candidates.
std::filesystem::path find_run(const std::filesystem::path& root, const std::string& name);

}  // namespace copylab
