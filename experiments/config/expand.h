// Expansion: from an experiment to the cells that it runs, each a list of resolved stages with their ids.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/settings.h"
#include "experiments/config/experiment.h"
#include "experiments/config/schema.h"

namespace copylab {

struct Stage {
  std::string name;    // "" where the experiment has no stages
  Settings settings;   // resolved; run.parent is the id of the stage before
  std::string id;      // run_id
  std::string folder;  // of the run: "<experiment>/<cell>-<id>", under the results root
};

struct Cell {
  std::string arm;
  std::vector<std::pair<std::string, Value>> coordinates;  // swept keys with this cell's values
  size_t point = 0;                                        // index of the coordinates in the expansion
  int64_t seed = 0;
  std::vector<Stage> stages;  // never empty; the last one is the result
  bool tune = false;          // roles, see Select
  bool best = false;
  bool same = false;

  const Stage& result() const { return stages.back(); }
};

// The metric that selection reads from a finished cell; nothing if the cell failed.
using MetricOf = std::function<std::optional<double>(const Cell&)>;

class Expansion {
 public:
  // Resolves every cell, so that all errors of a configuration are found here. Throws ConfigError.
  Expansion(const Catalogue& catalogue, Experiment experiment);

  const Experiment& experiment() const { return experiment_; }
  // Swept keys in order.
  std::vector<std::string> coordinates() const;

  // The cells to run first: those on the tuning seeds if there is a selection, else all.
  const std::vector<Cell>& first() const { return first_; }
  // With a selection: the first cells with their roles completed, and those that run on the reported seeds.
  // Where no tuned cell of an arm and a point has a metric, that arm has no cells there.
  std::vector<Cell> select(const MetricOf& metric) const;
  // The most cells that first() and select() may come to.
  size_t largest_count() const;

 private:
  struct Point {
    RawConfig set;      // the swept keys that are set here
    size_t over = 0;    // which value of select.over
    size_t others = 0;  // number of the point when select.over is left out
  };

  // The name of a run is made here, so no layer may set it. Throws ConfigError.
  void check_own_keys() const;
  // Two runs that are one would count twice in a mean. Throws ConfigError.
  void check_distinct() const;
  void make_points();
  // An arm that sets a swept key itself takes part only in the points of its own value. Throws ConfigError
  // where there are none.
  void make_participation();
  Cell make_cell(size_t arm, size_t point, int64_t seed) const;
  // Of the settings of base, an arm or a point, those that a stage knows, and those that no stage knows:
  // these are errors. So an arm can say how to pre-train as well as how to fine-tune.
  RawConfig of_stage(const RawConfig& set, size_t arm, const Point& point, const StageSpec& spec) const;
  Stage make_stage(size_t arm, const Point& point, int64_t seed, const StageSpec& spec,
                   const std::string& parent, bool last) const;
  // Which point of a group of equal `others` is best for an arm by its tuned cells.
  std::optional<size_t> best_point(size_t arm, size_t others, const MetricOf& metric) const;

  const Catalogue& catalogue_;
  Experiment experiment_;
  std::vector<Point> points_;
  std::vector<std::vector<bool>> takes_part_;  // by arm and point
  std::vector<Cell> first_;
};

struct Roles {
  bool tune = false, best = false, same = false;
};

// Does a result match a band: arm, role, and the settings under `where`? `swept` holds the swept keys with
// this result's values as text: they may be settings of an earlier stage. A result without settings (it is
// missing) matches if its arm and role do, and its swept keys. Throws ConfigError for a key or value that the
// schema refuses.
bool matches(const Catalogue& catalogue, const Band& band, const std::string& arm, Roles roles,
             const Settings* settings, const std::map<std::string, std::string>& swept = {});

}  // namespace copylab
