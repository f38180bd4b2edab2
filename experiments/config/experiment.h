// Experiment: a named set of runs as its YAML file in configs/ describes it, with one preset laid over it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/raw.h"

namespace copylab {

// How one swept key is chosen by a result. Every value of `over` runs on the tuning seeds. Then, for each arm
// and each point of the other coordinates, the reported seeds run at the value that is best for that arm
// there (role "best"), and at the value that is best for arm `same` there (role "same").
struct Select {
  std::string over;  // a swept key
  std::string by;    // a metric, "valid/loss"
  bool maximise = false;
  std::vector<int64_t> seeds;  // tuning seeds
  std::string same;            // an arm, or empty: no cells of role "same"
};

// A run that starts from the weights of the stage before. What base, arms and axes set holds in each stage
// that knows it; what arms and axes set also where the stage is about another task than theirs, unless the
// stage sets it itself.
struct StageSpec {
  std::string name;
  RawConfig set;
};

// An expected result: the mean of `metric` over the seeds of the matching cells lies in [low, high]. With
// `against`, the mean of a comparison with the cell of that arm that has the same seed, role and coordinates:
//   difference    metric - metric of `against`
//   ratio         metric / metric of `against`
//   token_saving  of a series such as valid/loss: tokens that `against` needs over those that this arm needs
//   to
//                 the same value, see token_saving()
struct Band {
  enum class Compare { difference, ratio, token_saving };
  std::string metric;  // "test/accuracy", "gradient_rank/null_ratio"
  std::string arm;     // empty: every arm
  RawConfig where;     // settings that the cell must have
  std::string role;    // "best", "same", "tune"
  std::string preset;  // empty: every preset
  double low = 0, high = 0;
  std::string against;  // an arm, or empty: the metric itself
  Compare compare = Compare::difference;
  // A difference at equal values of this metric, or empty: the other arm's metric is interpolated between its
  // cells that differ in nothing but what `where` names.
  std::string at_equal;
  bool interval = false;  // the 95 % t-interval must lie in the band, too
  std::string claim;      // id in the ledger of claims, or empty
  std::string at;         // FILE:LINE
};

struct Experiment {
  std::string name, title, purpose;
  std::vector<std::string> claims, measures, figures;
  RawConfig base;
  std::vector<std::pair<std::string, RawConfig>> arms;
  std::vector<std::string> arms_vary = {"head"};  // keys, or sections of keys, that arms may set
  RawConfig grid;                                 // lists: cartesian product
  RawConfig zip;                                  // lists of equal length, walked together
  RawConfig changes;                              // lists: each value alone against base
  std::vector<int64_t> seeds = {1};
  std::optional<Select> select;
  std::vector<StageSpec> stages;  // empty: one nameless stage
  std::vector<Band> expected;
  std::vector<std::string> presets;  // names, in the order of the file
  std::string preset;                // the one in force, or empty
  bool altered = false;              // the command line changed it, so it is no longer the file's experiment

  // What its results are indexed under: the preset, "full" for a file without presets, or "custom" when
  // altered, so that a variation never takes the place of the experiment that figures and bands are about.
  std::string index() const { return altered ? "custom" : preset.empty() ? "full" : preset; }
  std::string text;   // the file, and as comments the one that it includes, for provenance
  RawConfig command;  // settings from the command line, over everything else
};

// Reads a file and lays a preset over it. Files named under `include` lie below, their presets too; they are
// looked for beside the file, then in configs/ of the folders above it. An empty `preset` means "quick" where
// the file has it, else none; "none" means none. Throws ConfigError.
Experiment load_experiment(const std::filesystem::path& file, const std::string& preset = "");

// What the command line may change.
struct Overrides {
  std::vector<std::string> assignments;  // key=value; a swept key becomes this one value
  std::vector<std::string> sweeps;       // key=a,b,c: new or replaced axes
  bool zip = false;                      // walk the swept axes together
  std::string seeds;                     // "3": seeds 1, 2, 3; "5,7": these; empty: as in the file
  std::string arms;                      // "vanilla,copy_paste": only these; empty: all

  bool empty() const { return assignments.empty() && sweeps.empty() && seeds.empty() && arms.empty(); }
};

void apply(Experiment& experiment, const Overrides& overrides);

// Is this YAML file a run's config.yaml rather than an experiment?
bool is_run_config(const std::filesystem::path& file);

}  // namespace copylab
