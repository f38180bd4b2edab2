// Expansion of experiments into cells, and selection after tuning.
#include "experiments/config/expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/config/run_fields.h"
#include "experiments/config/values.h"

namespace copylab {
namespace {

// One axis of the product: at each step it sets some keys.
using Axis = std::vector<RawConfig>;

std::vector<Axis> axes_of(const Experiment& e) {
  std::vector<Axis> axes;
  for (const auto& [key, list] : e.grid.entries) {
    Axis axis;
    for (const RawValue& item : list.items) axis.push_back({{{key, item}}});
    axes.push_back(std::move(axis));
  }
  if (!e.zip.entries.empty()) {
    Axis axis(e.zip.entries.front().value.items.size());
    for (const auto& [key, list] : e.zip.entries) {
      for (size_t i = 0; i < axis.size(); ++i) axis[i].set(key, list.items[i]);
    }
    axes.push_back(std::move(axis));
  }
  if (!e.changes.entries.empty()) {
    Axis axis(1);  // the first step changes nothing
    for (const auto& [key, list] : e.changes.entries) {
      for (const RawValue& item : list.items) axis.push_back({{{key, item}}});
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

// Text that is safe in a folder's name.
std::string file_safe(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool safe = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '+';
    if (safe || (c == '-' && !out.empty())) out += c;
    if (c == ',') out += '_';
  }
  return out;
}

std::string cell_name(const Cell& cell, const std::string& stage) {
  std::string name = file_safe(cell.arm);
  for (const auto& [key, value] : cell.coordinates) {
    const std::string text = format_value(value);  // of a path its last part
    name += "-" + file_safe(key.substr(key.rfind('.') + 1) + text.substr(text.rfind('/') + 1));
  }
  name += fmt::format("-s{}", cell.seed);
  if (!stage.empty()) name += "-" + file_safe(stage);
  return name;
}

// Names the cell in the message of an error.
[[noreturn]] void rethrow(const ConfigError& error, const std::string& arm) {
  throw ConfigError(fmt::format("{} (arm {})", error.what(), arm));
}

}  // namespace

Expansion::Expansion(const Catalogue& catalogue, Experiment experiment)
    : catalogue_(catalogue), experiment_(std::move(experiment)) {
  if (experiment_.arms.empty()) experiment_.arms = {{"base", {}}};
  make_points();
  check_own_keys();
  make_participation();
  const std::vector<int64_t>& seeds = experiment_.select ? experiment_.select->seeds : experiment_.seeds;
  for (size_t arm = 0; arm < experiment_.arms.size(); ++arm) {
    for (size_t point = 0; point < points_.size(); ++point) {
      if (!takes_part_[arm][point]) continue;
      for (int64_t seed : seeds) {
        Cell cell = make_cell(arm, point, seed);
        cell.tune = experiment_.select.has_value();
        cell.best = cell.same = !cell.tune;
        first_.push_back(std::move(cell));
      }
    }
  }
  check_distinct();
}

void Expansion::check_own_keys() const {
  const Experiment& e = experiment_;
  std::vector<const RawConfig*> layers = {&e.base, &e.grid, &e.zip, &e.changes, &e.command};
  for (const auto& [name, set] : e.arms) layers.push_back(&set);
  for (const StageSpec& stage : e.stages) layers.push_back(&stage.set);
  for (const RawConfig* layer : layers) {
    for (const auto& [key, value] : layer->entries) {
      if (key != "run.experiment" && key != "run.cell" && key != "run.command") continue;
      throw ConfigError(fmt::format("{}{}{}: expected no value, for each run gets its own", value.where,
                                    value.where.empty() ? "" : ": ", key));
    }
  }
}

void Expansion::check_distinct() const {
  std::set<std::string> seen;
  for (const Cell& cell : first_) {
    std::string point;
    for (const auto& [key, value] : cell.coordinates) point += " " + key + "=" + format_value(value);
    if (!seen.insert(fmt::format("{}{} {}", cell.arm, point, cell.seed)).second)
      throw ConfigError(fmt::format("arm {}:{} is swept twice: expected each value once", cell.arm, point));
  }
}

std::vector<std::string> Expansion::coordinates() const {
  std::vector<std::string> keys;
  for (const RawConfig* section : {&experiment_.grid, &experiment_.zip, &experiment_.changes}) {
    for (const RawConfig::Entry& entry : section->entries) keys.push_back(entry.key);
  }
  return keys;
}

void Expansion::make_points() {
  points_ = {Point{}};
  for (const Axis& axis : axes_of(experiment_)) {
    const bool over = experiment_.select && axis[0].find(experiment_.select->over) != nullptr;
    std::vector<Point> product;
    for (const Point& point : points_) {
      for (size_t i = 0; i < axis.size(); ++i) {
        Point next = point;
        for (const RawConfig::Entry& entry : axis[i].entries) next.set.set(entry.key, entry.value);
        if (over) {
          next.over = i;
        } else {
          next.others = point.others * axis.size() + i;
        }
        product.push_back(std::move(next));
      }
    }
    points_ = std::move(product);
  }
}

void Expansion::make_participation() {
  const auto same = [](const RawValue& a, const RawValue& b) { return a.text == b.text; };
  for (const auto& [name, set] : experiment_.arms) {
    std::vector<bool> points;
    std::string pinned;
    for (const Point& point : points_) {
      bool agrees = true;
      for (const auto& [key, value] : point.set.entries) {
        const RawValue* own = set.find(key);
        if (!own) continue;
        pinned = key;
        agrees = agrees && same(*own, value);
      }
      points.push_back(agrees);
    }
    if (std::find(points.begin(), points.end(), true) == points.end()) {
      throw ConfigError(fmt::format("arms.{}: sets {} to '{}', which is none of its swept values", name,
                                    pinned, set.find(pinned)->text));
    }
    takes_part_.push_back(std::move(points));
  }
}

RawConfig Expansion::of_stage(const RawConfig& set, size_t arm, const Point& point,
                              const StageSpec& spec) const {
  const Experiment& e = experiment_;
  if (e.stages.size() < 2) return set;
  const auto known_to = [&](const StageSpec& stage, const std::string& key) {
    return knows(catalogue_, {e.base, e.arms[arm].second, point.set, stage.set}, key);
  };
  RawConfig taken = set;
  std::erase_if(taken.entries, [&](const auto& entry) {
    if (entry.key.starts_with("measure.") || known_to(spec, entry.key)) return false;
    return std::any_of(e.stages.begin(), e.stages.end(),
                       [&](const StageSpec& other) { return known_to(other, entry.key); });
  });
  return taken;
}

Stage Expansion::make_stage(size_t arm, const Point& point, int64_t seed, const StageSpec& spec,
                            const std::string& parent, bool last) const {
  const Experiment& e = experiment_;
  const auto literal = [](const std::string& text) { return RawValue{RawValue::Kind::scalar, text, {}, ""}; };
  // Arm and point come again at the end, since another task in spec.set drops what lies below it.
  const auto not_set_here = [&](RawConfig set) {
    std::erase_if(set.entries, [&](const auto& entry) { return spec.set.find(entry.key) != nullptr; });
    return set;
  };
  const RawConfig own_arm = not_set_here(of_stage(e.arms[arm].second, arm, point, spec)),
                  own_point = not_set_here(of_stage(point.set, arm, point, spec));
  std::vector<RawConfig> layers = {
      of_stage(e.base, arm, point, spec), own_arm, own_point, spec.set, own_arm, own_point};
  if (!last) {  // measures look at the finished cell only
    for (RawConfig& layer : layers) {
      std::erase_if(layer.entries, [](const auto& entry) { return entry.key.starts_with("measure."); });
    }
  }
  RawConfig own;
  own.set("train.seed", literal(fmt::format("{}", seed)));
  own.set("run.experiment", literal(e.name));
  own.set("run.parent", literal(parent));
  own.set("run.measures", literal(last ? fmt::format("{}", fmt::join(e.measures, ",")) : ""));
  layers.push_back(own);

  // A key of the command line applies to the arms that know it, and must be known to one.
  RawConfig command;
  for (const RawConfig::Entry& entry : e.command.entries) {
    const auto takes = [&](const auto& other) {
      std::vector<RawConfig> under = {e.base, other.second, point.set, spec.set, own, e.command};
      return knows(catalogue_, under, entry.key);
    };
    if (!last && entry.key.starts_with("measure.")) continue;
    if (takes(e.arms[arm]) || std::none_of(e.arms.begin(), e.arms.end(), takes))
      command.set(entry.key, entry.value);
  }
  layers.push_back(command);

  Stage stage;
  stage.name = spec.name;
  stage.settings = resolve_new(catalogue_, layers);
  stage.id = run_id(catalogue_, stage.settings);
  return stage;
}

Cell Expansion::make_cell(size_t arm, size_t point, int64_t seed) const {
  Cell cell;
  cell.arm = experiment_.arms[arm].first;
  cell.point = point;
  cell.seed = seed;
  const std::vector<StageSpec> nameless = {{}};
  const std::vector<StageSpec>& specs = experiment_.stages.empty() ? nameless : experiment_.stages;
  try {
    for (const StageSpec& spec : specs) {
      const std::string parent = cell.stages.empty() ? "" : cell.stages.back().id;
      cell.stages.push_back(make_stage(arm, points_[point], seed, spec, parent, &spec == &specs.back()));
    }
  } catch (const ConfigError& error) {
    rethrow(error, cell.arm);
  }
  for (const std::string& key : coordinates()) {
    const Value* value =
        nullptr;  // in the last stage that has it, if possible one that does not set it itself
    for (const bool any : {false, true}) {
      for (size_t i = cell.stages.size(); i-- > 0 && !value;) {
        const Settings& settings = cell.stages[i].settings;
        if (settings.has(key) && (any || !specs[i].set.find(key))) value = &settings.at(key);
      }
    }
    expect(value != nullptr, "expand", "no stage has {}", key);
    cell.coordinates.emplace_back(key, *value);
  }
  for (Stage& stage : cell.stages) {
    const std::string name = cell_name(cell, stage.name);
    stage.settings.set("run.cell", name);
    stage.folder = experiment_.name + "/" + name + "-" + stage.id;
  }
  return cell;
}

std::optional<size_t> Expansion::best_point(size_t arm, size_t others, const MetricOf& metric) const {
  std::optional<size_t> best;
  double best_value = 0;
  for (size_t point = 0; point < points_.size(); ++point) {
    if (points_[point].others != others || !takes_part_[arm][point]) continue;
    double sum = 0;
    int n = 0, wanted = 0;
    for (const Cell& cell : first_) {
      if (cell.point != point || cell.arm != experiment_.arms[arm].first) continue;
      ++wanted;
      const std::optional<double> value = metric(cell);
      if (!value || !std::isfinite(*value)) continue;
      sum += *value;
      ++n;
    }
    if (n < wanted) continue;  // a value that fails on one of the tuning seeds is not a candidate
    const double mean = sum / n;
    const bool better = !best || (experiment_.select->maximise ? mean > best_value : mean < best_value);
    if (!better) continue;
    best = point;
    best_value = mean;
  }
  return best;
}

std::vector<Cell> Expansion::select(const MetricOf& metric) const {
  expect(experiment_.select.has_value(), "expand", "the experiment has no selection");
  const Select& select = *experiment_.select;
  std::vector<Cell> cells = first_;
  const auto mark = [&](size_t arm, size_t point, bool Cell::*role) {
    for (int64_t seed : experiment_.seeds) {
      const auto it = std::find_if(cells.begin(), cells.end(), [&](const Cell& cell) {
        return cell.arm == experiment_.arms[arm].first && cell.point == point && cell.seed == seed;
      });
      if (it != cells.end()) {
        (*it).*role = true;
      } else {
        cells.push_back(make_cell(arm, point, seed));
        cells.back().*role = true;
      }
    }
  };
  const size_t groups =
      1 + std::max_element(points_.begin(), points_.end(), [](const Point& a, const Point& b) {
            return a.others < b.others;
          })->others;
  for (size_t others = 0; others < groups; ++others) {
    std::optional<size_t> shared;
    for (size_t arm = 0; arm < experiment_.arms.size(); ++arm) {
      if (experiment_.arms[arm].first == select.same) shared = best_point(arm, others, metric);
    }
    for (size_t arm = 0; arm < experiment_.arms.size(); ++arm) {
      if (const std::optional<size_t> best = best_point(arm, others, metric)) mark(arm, *best, &Cell::best);
      if (shared && takes_part_[arm][*shared]) mark(arm, *shared, &Cell::same);
    }
  }
  return cells;
}

size_t Expansion::largest_count() const {
  if (!experiment_.select) return first_.size();
  size_t groups = 0;  // of points that differ in nothing but select.over, over all arms
  for (const std::vector<bool>& points : takes_part_) {
    std::set<size_t> others;
    for (size_t point = 0; point < points.size(); ++point) {
      if (points[point]) others.insert(points_[point].others);
    }
    groups += others.size();
  }
  const auto over_one = [](const Point& point) { return point.over > 0; };
  const bool choice = std::any_of(points_.begin(), points_.end(), over_one);
  const size_t roles = experiment_.select->same.empty() || !choice ? 1 : 2;
  size_t fresh = 0;  // reported seeds that were not tuned on
  for (int64_t seed : experiment_.seeds) {
    const auto& tuned = experiment_.select->seeds;
    fresh += std::find(tuned.begin(), tuned.end(), seed) == tuned.end();
  }
  return first_.size() + groups * roles * fresh;
}

namespace {

// Is a swept value, as text, the one that was written? Numbers may be spelled in more than one way, and
// results hold true and false as 1 and 0.
bool same_value(const std::string& swept, const std::string& written) {
  const auto number = [](const std::string& text) -> std::optional<double> {
    if (text == "true" || text == "false") return text == "true" ? 1 : 0;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') return std::nullopt;
    return value;
  };
  const auto a = number(swept), b = number(written);
  return a && b ? *a == *b : swept == written;
}

}  // namespace

bool matches(const Catalogue& catalogue, const Band& band, const std::string& arm, Roles roles,
             const Settings* settings, const std::map<std::string, std::string>& swept) {
  if (!band.arm.empty() && band.arm != arm) return false;
  if (band.role == "tune" ? !roles.tune : band.role == "same" ? !roles.same : !roles.best) return false;
  std::vector<RawConfig::Entry> others;
  for (const RawConfig::Entry& entry : band.where.entries) {
    const auto it = swept.find(entry.key);
    if (it == swept.end())
      others.push_back(entry);
    else if (!same_value(it->second, entry.value.text))
      return false;
  }
  if (!settings) return true;
  const Schema schema(catalogue, settings->text("task.name"), settings->text("head.kind"),
                      measure_names(settings->text("run.measures")));
  for (const auto& [key, raw] : others) {
    const Field& field = schema.at(key, raw.where);
    if (settings->at(key) != parse_value(field, raw)) return false;
  }
  return true;
}

}  // namespace copylab
