// Reading of experiment files, presets and command-line changes.
#include "experiments/config/experiment.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "core/nearest.h"
#include "experiments/config/error.h"
#include "experiments/config/values.h"

namespace copylab {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void bad(const std::string& at, const std::string& what) {
  throw ConfigError(at.empty() ? what : at + ": " + what);
}

Field text_field(const std::string& path, std::vector<std::string> choices = {}) {
  return {.path = path, .fallback = std::string(), .doc = "", .choices = std::move(choices)};
}

std::string read_text(const Field& field, const RawValue& raw) {
  return std::get<std::string>(parse_value(field, raw));
}

std::string read_text(const std::string& key, const YAML::Node& node, const std::string& file) {
  return read_text(text_field(key), raw_value(node, file));
}

std::vector<std::string> read_texts(const std::string& key, const YAML::Node& node, const std::string& file) {
  const RawValue raw = raw_value(node, file);
  if (raw.kind != RawValue::Kind::list)
    bad(raw.where, fmt::format("{}: expected a list of names, got {}", key, describe(raw)));
  std::vector<std::string> out;
  for (const RawValue& item : raw.items) out.push_back(read_text(text_field(key), item));
  return out;
}

// The keys and nodes of a map whose keys are known; each key once.
std::vector<std::pair<std::string, YAML::Node>> read_map(const std::string& what, const YAML::Node& node,
                                                         const std::string& file,
                                                         const std::vector<std::string>& known) {
  if (!node.IsMap()) bad(where(node, file), fmt::format("{}: expected keys with values", what));
  std::vector<std::pair<std::string, YAML::Node>> out;
  std::set<std::string> seen;
  for (const auto& pair : node) {
    const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "";
    const std::string at = where(pair.first, file);
    if (!known.empty() && std::find(known.begin(), known.end(), key) == known.end()) {
      bad(at, fmt::format("unknown key '{}' in {}{}", key, what, did_you_mean(key, known)));
    }
    if (!seen.insert(key).second) bad(at, fmt::format("{} is given twice in {}", key, what));
    out.emplace_back(key, pair.second);
  }
  return out;
}

// A name that becomes a folder.
void check_folder_name(const std::string& key, const std::string& name, const std::string& at) {
  const auto safe = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  if (std::all_of(name.begin(), name.end(), safe) && name.front() != '.' && name.front() != '-') return;
  bad(at, fmt::format("{}: expected letters, digits, '_', '-' or '.', for it names a folder; got '{}'", key,
                      name));
}

std::vector<int64_t> parse_seeds(const std::string& key, const RawValue& raw) {
  const Field one{.path = key, .fallback = int64_t{0}, .doc = "", .min = 0};
  const Field many{.path = key, .fallback = std::vector<int64_t>(), .doc = "", .min = 0};
  if (raw.kind == RawValue::Kind::list) {
    const auto seeds = std::get<std::vector<int64_t>>(parse_value(many, raw));
    if (seeds.empty()) bad(raw.where, key + ": expected at least one seed");
    std::set<int64_t> seen;
    for (int64_t seed : seeds) {
      if (!seen.insert(seed).second) bad(raw.where, fmt::format("{}: {} is given twice", key, seed));
    }
    return seeds;
  }
  Field count = one;
  count.min = 1;
  count.max = 100;  // more than that is a seed taken for their number
  std::vector<int64_t> seeds(static_cast<size_t>(std::get<int64_t>(parse_value(count, raw))));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<int64_t>(i) + 1;
  return seeds;
}

void check_lists(const std::string& section, const RawConfig& axes) {
  for (const auto& [key, value] : axes.entries) {
    if (value.kind == RawValue::Kind::null) continue;  // removes the axis
    if (value.kind != RawValue::Kind::list || value.items.empty()) {
      bad(value.where,
          fmt::format("{}: expected a list of values in {}, got {}", key, section, describe(value)));
    }
    if (key == "train.seed")
      bad(value.where, fmt::format("train.seed: expected under seeds, not in {}", section));
  }
}

void check_zip(const RawConfig& zip) {
  for (const auto& [key, value] : zip.entries) {
    const size_t n = zip.entries.front().value.items.size();
    if (value.items.size() == n) continue;
    bad(value.where,
        fmt::format("{}: expected {} values as {} has, since zip walks its lists together; got {}", key, n,
                    zip.entries.front().key, value.items.size()));
  }
}

void apply_arms(Experiment& e, const YAML::Node& node, const std::string& file, bool preset) {
  for (const auto& [name, body] : read_map("arms", node, file, {})) {
    const auto it =
        std::find_if(e.arms.begin(), e.arms.end(), [&n = name](const auto& arm) { return arm.first == n; });
    if (preset && body.IsNull()) {
      if (it == e.arms.end())
        bad(where(body, file), fmt::format("arms.{} is set to null to remove it, but it is not there", name));
      e.arms.erase(it);
    } else if (it == e.arms.end()) {
      e.arms.emplace_back(name, merge({}, flatten(body, file)));
    } else {
      it->second = merge(it->second, flatten(body, file));
    }
  }
}

// Stages in order. One that is there already, from the file below, gets the settings over its own; set: null
// removes it.
void apply_stages(Experiment& e, const YAML::Node& node, const std::string& file) {
  if (!node.IsSequence()) bad(where(node, file), "stages: expected a list of {name, set}");
  std::set<std::string> seen;
  for (const YAML::Node& item : node) {
    StageSpec stage;
    bool removed = false;
    for (const auto& [key, value] : read_map("a stage", item, file, {"name", "set"})) {
      if (key == "name") stage.name = read_text("stages.name", value, file);
      removed |= key == "set" && value.IsNull();
      if (key == "set" && !value.IsNull()) stage.set = flatten(value, file);
    }
    if (stage.name.empty()) bad(where(item, file), "stages: expected a name in each stage");
    if (!seen.insert(stage.name).second)
      bad(where(item, file), fmt::format("stages: {} is given twice", stage.name));
    const auto it = std::find_if(e.stages.begin(), e.stages.end(),
                                 [&](const StageSpec& other) { return other.name == stage.name; });
    if (removed && it == e.stages.end())
      bad(where(item, file),
          fmt::format("stages: {} is set to null to remove it, but it is not there", stage.name));
    if (removed)
      e.stages.erase(it);
    else if (it != e.stages.end())
      it->set = merge(it->set, stage.set);
    else
      e.stages.push_back(std::move(stage));
  }
}

Band read_band(const YAML::Node& node, const std::string& file) {
  Band band;
  band.at = where(node, file);
  band.role = "best";
  bool bounded = false, compared = false;
  for (const auto& [key, value] : read_map("an entry of expected", node, file,
                                           {"metric", "arm", "where", "role", "preset", "band", "claim",
                                            "against", "as", "at_equal", "ci"})) {
    if (key == "metric") band.metric = read_text("expected.metric", value, file);
    if (key == "arm") band.arm = read_text("expected.arm", value, file);
    if (key == "where") band.where = flatten(value, file);
    if (key == "preset") band.preset = read_text("expected.preset", value, file);
    if (key == "claim") band.claim = read_text("expected.claim", value, file);
    if (key == "against") band.against = read_text("expected.against", value, file);
    if (key == "as") {
      const std::string as = read_text(text_field("expected.as", {"difference", "ratio", "token_saving"}),
                                       raw_value(value, file));
      band.compare = as == "ratio"          ? Band::Compare::ratio
                     : as == "token_saving" ? Band::Compare::token_saving
                                            : Band::Compare::difference;
      compared = true;
    }
    if (key == "at_equal") band.at_equal = read_text("expected.at_equal", value, file);
    if (key == "ci") {
      const Field flag{.path = "expected.ci", .fallback = false, .doc = ""};
      band.interval = std::get<bool>(parse_value(flag, raw_value(value, file)));
    }
    if (key == "role") {
      band.role = read_text(text_field("expected.role", {"best", "same", "tune"}), raw_value(value, file));
    }
    if (key == "band") {
      const RawValue raw = raw_value(value, file);
      if (raw.items.size() != 2)
        bad(raw.where, fmt::format("expected.band: expected [low, high], got {}", describe(raw)));
      const Field number{.path = "expected.band", .fallback = 0.0, .doc = ""};
      band.low = std::get<double>(parse_value(number, raw.items[0]));
      band.high = std::get<double>(parse_value(number, raw.items[1]));
      if (band.low > band.high) bad(raw.where, "expected.band: expected [low, high] with low <= high");
      bounded = true;
    }
  }
  if (band.metric.empty() || !bounded)
    bad(band.at, "expected: a metric and a band [low, high] are needed in each entry");
  if (compared && band.against.empty()) bad(band.at, "expected.as: needs against: an arm to compare with");
  const bool differs = !band.against.empty() && band.compare == Band::Compare::difference;
  if (!band.at_equal.empty() && (!differs || band.where.entries.empty()))
    bad(band.at,
        "expected.at_equal: needs against: an arm to compare with, where: what its cells may differ in, and "
        "a "
        "difference");
  return band;
}

Select read_select(const RawConfig& raw, const std::string& at) {
  static const std::vector<std::string> known = {"over", "by", "goal", "seeds", "same"};
  Select select;
  select.seeds = {1001};
  for (const auto& [key, value] : raw.entries) {
    if (key == "over") select.over = read_text(text_field("select.over"), value);
    if (key == "by") select.by = read_text(text_field("select.by"), value);
    if (key == "goal") select.maximise = read_text(text_field("select.goal", {"min", "max"}), value) == "max";
    if (key == "seeds") select.seeds = parse_seeds("select.seeds", value);
    if (key == "same") select.same = read_text(text_field("select.same"), value);
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      bad(value.where, fmt::format("unknown key '{}' in select{}", key, did_you_mean(key, known)));
    }
  }
  if (select.over.empty() || select.by.empty())
    bad(at, "select: expected over: a swept key, and by: a metric");
  return select;
}

// Keys of the file in the order that `copylab list` documents them.
const std::vector<std::string>& experiment_keys() {
  static const std::vector<std::string> keys = {
      "name", "include", "title", "purpose", "claims", "base",     "arms",     "arms_vary", "grid",
      "zip",  "changes", "seeds", "select",  "stages", "measures", "expected", "figures",   "presets"};
  return keys;
}

// Where a body of keys stands: in an experiment's own file, in one that it includes, or in a preset of
// either.
enum class Place { experiment, included, preset };

// Collects the body of a file, then that of its preset, over it.
class Reader {
 public:
  void apply(const YAML::Node& body, const std::string& file, Place place) {
    file_ = file;
    const bool preset = place == Place::preset;
    const std::string what = preset ? "a preset" : "an experiment";
    for (const auto& [key, node] : read_map(what, body, file_, experiment_keys())) {
      if (place != Place::experiment && (key == "name" || key == "include" || (preset && key == "presets")))
        bad(where(node, file_),
            fmt::format("{}: cannot be set in {}", key, preset ? "a preset" : "a file that is included"));
      if (preset && node.IsNull()) {
        remove(key, node);
      } else {
        read(key, node, preset);
      }
    }
  }

  Experiment finish() {
    check_zip(out.zip);
    check_axes();
    if (has_select_) {
      out.select = read_select(select_, select_at_);
      check_select();
    }
    for (const Band& band : out.expected) {
      if (!band.preset.empty()) check_preset(band.preset, band.at);
      // A preset may be without the arms that bands of another one are about.
      if (!band.preset.empty() && band.preset != out.preset) continue;
      if (!band.arm.empty()) check_arm(band.arm, "expected.arm", band.at);
      if (!band.against.empty()) check_arm(band.against, "expected.against", band.at);
    }
    for (const auto& [name, set] : out.arms) check_varies(name, set);
    return out;
  }

  Experiment out;

 private:
  void read(const std::string& key, const YAML::Node& node, bool preset) {
    if (key == "name") out.name = read_text(key, node, file_);
    if (key == "title") out.title = read_text(key, node, file_);
    if (key == "purpose") out.purpose = read_text(key, node, file_);
    if (key == "claims") out.claims = read_texts(key, node, file_);
    if (key == "measures") out.measures = read_texts(key, node, file_);
    if (key == "figures") out.figures = read_texts(key, node, file_);
    if (key == "arms_vary") out.arms_vary = read_texts(key, node, file_);
    if (key == "base") out.base = merge(out.base, flatten(node, file_));
    if (key == "arms") apply_arms(out, node, file_, preset);
    if (key == "grid") read_axes(out.grid, key, node);
    if (key == "zip") read_axes(out.zip, key, node);
    if (key == "changes") read_axes(out.changes, key, node);
    if (key == "seeds") out.seeds = parse_seeds("seeds", raw_value(node, file_));
    if (key == "stages") apply_stages(out, node, file_);
    if (key == "expected") {
      if (!node.IsSequence()) bad(where(node, file_), "expected: a list of {metric, band, ...} is needed");
      out.expected.clear();
      for (const YAML::Node& item : node) out.expected.push_back(read_band(item, file_));
    }
    if (key == "select") {
      select_ = merge(select_, flatten(node, file_));
      select_at_ = where(node, file_);
      has_select_ = true;
    }
  }

  void remove(const std::string& key, const YAML::Node& node) {
    const std::map<std::string, std::function<void()>> removals = {
        {"claims", [&] { out.claims.clear(); }},
        {"measures", [&] { out.measures.clear(); }},
        {"figures", [&] { out.figures.clear(); }},
        {"base", [&] { out.base = {}; }},
        {"arms", [&] { out.arms.clear(); }},
        {"grid", [&] { out.grid = {}; }},
        {"zip", [&] { out.zip = {}; }},
        {"changes", [&] { out.changes = {}; }},
        {"stages", [&] { out.stages.clear(); }},
        {"expected", [&] { out.expected.clear(); }},
        {"select", [&] { has_select_ = false; }},
    };
    const auto it = removals.find(key);
    if (it == removals.end()) bad(where(node, file_), fmt::format("{}: cannot be removed by null", key));
    it->second();
  }

  void read_axes(RawConfig& axes, const std::string& section, const YAML::Node& node) {
    const RawConfig read = flatten(node, file_);
    check_lists(section, read);
    axes = merge(axes, read);
  }

  void check_axes() {
    for (const auto& [key, value] : out.zip.entries) {
      if (out.grid.find(key)) bad(value.where, fmt::format("{}: is in grid and in zip", key));
    }
    for (const auto& [key, value] : out.changes.entries) {
      if (out.grid.find(key) || out.zip.find(key))
        bad(value.where, fmt::format("{}: is in changes and in grid or zip", key));
    }
  }

  void check_preset(const std::string& preset, const std::string& at) {
    if (std::find(out.presets.begin(), out.presets.end(), preset) != out.presets.end()) return;
    bad(at, fmt::format("expected.preset: expected one of the presets {}, got '{}'{}",
                        fmt::join(out.presets, ", "), preset, did_you_mean(preset, out.presets)));
  }

  void check_arm(const std::string& arm, const std::string& key, const std::string& at) {
    std::vector<std::string> names;
    for (const auto& [name, body] : out.arms) names.push_back(name);
    if (std::find(names.begin(), names.end(), arm) != names.end()) return;
    if (names.empty()) bad(at, fmt::format("{}: expected none, for there are no arms; got '{}'", key, arm));
    bad(at, fmt::format("{}: expected one of the arms {}, got '{}'{}", key, fmt::join(names, ", "), arm,
                        did_you_mean(arm, names)));
  }

  // Arms of a fair comparison differ in what the file says, by default the head, and in nothing else.
  void check_varies(const std::string& arm, const RawConfig& set) {
    for (const auto& [key, value] : set.entries) {
      const auto covers = [&, &key = key](const std::string& part) {
        return key == part || key.starts_with(part + ".");
      };
      if (std::any_of(out.arms_vary.begin(), out.arms_vary.end(), covers)) continue;
      bad(value.where,
          fmt::format("arms.{}: expected keys of {} only, got {}; arms_vary names what arms may set", arm,
                      fmt::join(out.arms_vary, ", "), key));
    }
  }

  void check_select() {
    const Select& select = *out.select;
    if (!out.grid.find(select.over)) {
      std::vector<std::string> names;
      for (const auto& [key, value] : out.grid.entries) names.push_back(key);
      bad(select_at_, fmt::format("select.over: expected a key of grid, got '{}'{}", select.over,
                                  did_you_mean(select.over, names)));
    }
    if (!select.same.empty()) check_arm(select.same, "select.same", select_at_);
  }

  std::string file_;
  RawConfig select_;
  std::string select_at_;
  bool has_select_ = false;
};

std::string slurp(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// An axis of the grid, wherever the key was swept before.
void set_axis(Experiment& e, const std::string& key, RawValue list) {
  e.zip.erase(key);
  e.changes.erase(key);
  e.grid.set(key, std::move(list));
}

bool is_swept(const Experiment& e, const std::string& key) {
  return e.grid.find(key) || e.zip.find(key) || e.changes.find(key);
}

void keep_arms(Experiment& e, const std::string& list) {
  std::vector<std::string> names;
  for (const auto& [name, body] : e.arms) names.push_back(name);
  std::vector<std::pair<std::string, RawConfig>> kept;
  for (const RawValue& item : parse_sweep_assignment("arms=" + list).value.items) {
    const auto it = std::find(names.begin(), names.end(), item.text);
    if (it == names.end()) {
      bad("", fmt::format("--arms: expected arms of {}, got '{}'{}", e.name, item.text,
                          did_you_mean(item.text, names)));
    }
    kept.push_back(e.arms[static_cast<size_t>(it - names.begin())]);
  }
  e.arms = std::move(kept);
}

fs::path find_included(const fs::path& file, const std::string& name, const std::string& at) {
  const fs::path folder = fs::absolute(file).parent_path();
  std::vector<fs::path> places = {folder / name};
  for (fs::path above = folder; above != above.root_path(); above = above.parent_path())
    places.push_back(above / "configs" / name);
  const auto it =
      std::find_if(places.begin(), places.end(), [](const auto& place) { return fs::exists(place); });
  if (it == places.end())
    bad(at, fmt::format("include: expected a file beside this one or in configs/, got '{}'", name));
  if (fs::is_directory(*it))
    bad(at, fmt::format("include: expected a file, got the folder '{}'", it->string()));
  if (fs::equivalent(*it, file)) bad(at, fmt::format("include: '{}' is this file itself", name));
  return *it;
}

// The text behind an experiment: its own file, which stays a valid one, and as comments the file that it
// includes.
std::string whole_text(const fs::path& file, const std::string& name, const fs::path& included) {
  std::string text = slurp(file);
  if (name.empty()) return text;
  text += fmt::format("{}\n# Included: {}\n", text.ends_with('\n') ? "" : "\n", name);
  std::istringstream lines(slurp(included));
  for (std::string line; std::getline(lines, line);) text += line.empty() ? "#\n" : "# " + line + "\n";
  return text;
}

}  // namespace

Experiment load_experiment(const fs::path& file, const std::string& preset) {
  const std::string name = file.string();
  const YAML::Node root = load_yaml(file);
  std::vector<std::pair<std::string, YAML::Node>> bodies;  // what is included, then the file
  std::string include;
  fs::path included;
  if (const YAML::Node node = root["include"]) {
    include = read_text("include", node, name);
    included = find_included(file, include, where(node, name));
    bodies.emplace_back(included.string(), load_yaml(included));
  }
  bodies.emplace_back(name, root);
  Reader reader;
  for (const auto& [at, body] : bodies)
    reader.apply(body, at, at == name ? Place::experiment : Place::included);
  Experiment& e = reader.out;
  if (e.name.empty()) bad(name, "name: expected the name of the experiment");
  check_folder_name("name", e.name, name);

  std::vector<std::pair<std::string, YAML::Node>> chosen;  // the preset's body in each file that has it
  for (const auto& [at, body] : bodies) {
    const YAML::Node presets = body["presets"];
    if (!presets || presets.IsNull()) continue;
    for (const auto& [key, set] : read_map("presets", presets, at, {})) {
      if (std::find(e.presets.begin(), e.presets.end(), key) == e.presets.end()) e.presets.push_back(key);
      if (key != preset && !(preset.empty() && key == "quick")) continue;
      e.preset = key;
      chosen.emplace_back(at, set);
    }
  }
  if (chosen.empty() && !preset.empty() && preset != "none") {
    if (e.presets.empty())
      bad("", fmt::format("--preset: expected none, for {} has no presets; got '{}'", e.name, preset));
    bad("", fmt::format("--preset: expected one of {} for {}, got '{}'{}", fmt::join(e.presets, ", "), e.name,
                        preset, did_you_mean(preset, e.presets)));
  }
  for (const auto& [at, set] : chosen)
    if (!set.IsNull()) reader.apply(set, at, Place::preset);
  Experiment out = reader.finish();
  out.text = whole_text(file, include, included);
  return out;
}

void apply(Experiment& e, const Overrides& overrides) {
  e.altered = !overrides.empty();
  if (!overrides.arms.empty()) keep_arms(e, overrides.arms);
  if (!overrides.seeds.empty()) {
    const bool list = overrides.seeds.find(',') != std::string::npos;
    e.seeds = parse_seeds("--seeds", list ? parse_sweep_assignment("seeds=" + overrides.seeds).value
                                          : RawValue{RawValue::Kind::scalar, overrides.seeds, {}, ""});
  }
  std::set<std::string> seen;
  const auto once = [&](const std::string& key) {
    if (!seen.insert(key).second) bad("", fmt::format("{} is given twice on the command line", key));
  };
  const auto assign = [&](const std::string& key, RawValue value) {
    once(key);
    if (key == "train.seed") {
      const Field seed{.path = key, .fallback = int64_t{0}, .doc = "", .min = 0};
      e.seeds = {std::get<int64_t>(parse_value(seed, value))};
      return;
    }
    if (is_swept(e, key)) set_axis(e, key, {RawValue::Kind::list, "", {value}, ""});
    e.command.set(key, std::move(value));
  };
  for (const std::string& text : overrides.assignments) {
    auto [key, value] = parse_assignment(text);
    assign(key, std::move(value));
  }
  RawConfig swept;
  for (const std::string& text : overrides.sweeps) {
    auto [key, value] = parse_sweep_assignment(text);
    if (value.items.size() == 1) {  // not an axis
      assign(key, std::move(value.items[0]));
      continue;
    }
    once(key);
    if (key == "train.seed") {
      e.seeds = parse_seeds("train.seed", value);
      continue;
    }
    swept.set(key, std::move(value));
  }
  if (overrides.zip) {
    check_zip(swept);
    for (const RawConfig::Entry& entry : swept.entries) {
      e.grid.erase(entry.key);
      e.changes.erase(entry.key);
    }
    e.zip = std::move(swept);
  } else {
    for (RawConfig::Entry& entry : swept.entries) set_axis(e, entry.key, std::move(entry.value));
  }
  if (e.select && !e.grid.find(e.select->over)) e.select.reset();
}

bool is_run_config(const fs::path& file) {
  const YAML::Node root = load_yaml(file);
  return root.IsMap() && root["run"].IsDefined() && !root["name"].IsDefined();
}

}  // namespace copylab
