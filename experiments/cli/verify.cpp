// copylab verify: measured results against the bands that the experiment expects.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/io/hdf5.h"
#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/schedule/run_index.h"
#include "experiments/schedule/sweep_file.h"
#include "experiments/store/run_folder.h"
#include "experiments/verify/statistics.h"
#include "experiments/verify/token_saving.h"

namespace copylab {
namespace {

namespace fs = std::filesystem;

// A row of the sweep file with the settings of its run.
struct Result {
  SweepRow row;
  fs::path folder;
  std::optional<Settings> settings;
};

// Where a run is that another experiment owns: the folder of its very name, since copies under other names
// may lack measures; else any of its id.
fs::path shared_folder(const RunIndex& index, const std::string& id, const fs::path& preferred) {
  for (const fs::path& folder : index.folders(id))
    if (folder.filename() == preferred.filename()) return folder;
  return index.choose(id, preferred);
}

std::vector<Result> read_results(const fs::path& root, const std::string& experiment, const Sweep& sweep) {
  const RunIndex index(root);
  std::vector<Result> results;
  for (const SweepRow& row : sweep.rows) {
    Result result{row, root / experiment / row.run, {}};
    const auto id = id_of_folder(row.run);
    if (!fs::exists(result.folder) && id) result.folder = shared_folder(index, *id, result.folder);
    if (row.status == "done" && fs::exists(result.folder / "config.yaml")) {
      result.settings = load_settings(result.folder / "config.yaml");
    }
    results.push_back(std::move(result));
  }
  return results;
}

bool takes(const Band& band, const Result& result) {
  return matches(Catalogue::installed(), band, result.row.arm,
                 {result.row.tune, result.row.best, result.row.same},
                 result.settings ? &*result.settings : nullptr, result.row.coordinates);
}

Curve curve_of(const fs::path& folder, const std::string& metric) {
  const h5::File file = h5::File::open(RunFolder{folder}.metrics());
  const std::string series = "eval/" + metric;
  if (metric.rfind("valid/", 0) != 0 || !file.has(series)) return {};  // no other result is a series
  const auto tokens = file.read<int64_t>(series.substr(0, series.rfind('/')) + "/tokens").values;
  return {{tokens.begin(), tokens.end()}, file.read<double>(series).values};
}

// Tokens after which the learning rate of a finished run decays.
double cooldown_of(const Result& result) {
  const h5::File file = h5::File::open(RunFolder{result.folder}.metrics());
  const auto rows = file.read<int64_t>("train/tokens").values;
  const double tokens = rows.empty() ? 0.0 : static_cast<double>(rows.back());
  const bool decays = result.settings->text("train.schedule") == "wsd";
  return tokens * (1.0 - (decays ? result.settings->real("train.decay") : 0.0));
}

// The cell that a comparison sets against `result`: of the other arm, all else equal.
const Result* reference_of(const Result& result, const Band& band, const std::vector<Result>& results) {
  Band other = band;
  other.arm = band.against;
  const auto equal = [&](const Result& candidate) {
    return candidate.row.seed == result.row.seed && candidate.row.coordinates == result.row.coordinates &&
           takes(other, candidate);
  };
  const auto it = std::find_if(results.begin(), results.end(), equal);
  return it == results.end() ? nullptr : &*it;
}

// The metric of the other arm where it has as much of band.at_equal as `result` has: interpolated over the
// logarithm of that between its cells of this seed, which may differ in what band.where names.
std::optional<double> reference_at_equal(const Result& result, const Band& band,
                                         const std::vector<Result>& results) {
  Band other = band;
  other.arm = band.against;
  other.where = {};
  const auto elsewhere = [&](std::map<std::string, std::string> coordinates) {
    for (const auto& [key, value] : band.where.entries) coordinates.erase(key);
    return coordinates;
  };
  std::vector<std::pair<double, double>> points;
  for (const Result& candidate : results) {
    if (candidate.row.seed != result.row.seed || !candidate.settings || !takes(other, candidate) ||
        elsewhere(candidate.row.coordinates) != elsewhere(result.row.coordinates))
      continue;
    const auto x = read_metric(candidate.folder, band.at_equal),
               y = read_metric(candidate.folder, band.metric);
    if (x && y) points.emplace_back(*x, *y);
  }
  std::sort(points.begin(), points.end());
  const auto own = read_metric(result.folder, band.at_equal);
  return own ? std::optional(interpolate_log(points, *own)) : std::nullopt;
}

// What a band is about, of one cell; nothing where it is missing. Throws Error for a damaged file.
std::optional<double> value_of(const Band& band, const Result& result, const std::vector<Result>& results) {
  if (!result.settings) return std::nullopt;
  if (band.against.empty()) return read_metric(result.folder, band.metric);
  if (!band.at_equal.empty()) {
    const auto own = read_metric(result.folder, band.metric),
               other = reference_at_equal(result, band, results);
    return own && other ? std::optional(*own - *other) : std::nullopt;
  }
  const Result* reference = reference_of(result, band, results);
  if (!reference || !reference->settings) return std::nullopt;
  if (band.compare == Band::Compare::token_saving)
    return token_saving(curve_of(result.folder, band.metric), curve_of(reference->folder, band.metric),
                        cooldown_of(result));
  const auto own = read_metric(result.folder, band.metric),
             other = read_metric(reference->folder, band.metric);
  if (!own || !other) return std::nullopt;
  return band.compare == Band::Compare::ratio ? *own / *other : *own - *other;
}

std::string name_of(const Band& band) {
  if (band.against.empty()) return band.metric;
  const char* what = band.compare == Band::Compare::ratio        ? "ratio to"
                     : band.compare == Band::Compare::difference ? "less that of"
                                                                 : "token saving over";
  const std::string at = band.at_equal.empty() ? "" : " at equal " + band.at_equal;
  return fmt::format("{} {} {}{}", band.metric, what, band.against, at);
}

std::string verdict(const Band& band, const MeanInterval& measured, size_t wanted) {
  if (wanted == 0) return "no such cells";
  if (measured.n < wanted) return fmt::format("missing {} of {}", wanted - measured.n, wanted);
  if (band.interval && measured.n < 2) return "needs 2 seeds";
  const auto inside = [&](double x) { return x >= band.low && x <= band.high; };
  const bool ok =
      inside(measured.mean) && (!band.interval || (inside(measured.low) && inside(measured.high)));
  return ok ? "ok" : "OUTSIDE";
}

}  // namespace

void add_verify(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("verify", "measured results against the bands an experiment expects");
  struct Options {
    std::string name, preset, from;
  };
  auto options = std::make_shared<Options>();
  verb->add_option("NAME", options->name, "experiment in configs/, or a YAML file")->required();
  verb->add_option("--preset", options->preset, "smoke, quick or full (default: quick)")->check(not_empty());
  verb->add_option("--from", options->from, "folder of the results (default: results)")->check(not_empty());
  verb->callback([options, &invocation] {
    invocation.action = [options] {
      const Experiment e = load_experiment(experiment_file(options->name), options->preset);
      const fs::path root = results_root(options->from);
      const fs::path file = sweep_path(root, e);
      if (!fs::exists(file)) {
        throw ConfigError(fmt::format("{} is not there: make it with `copylab run {}{}`", file.string(),
                                      e.name, e.preset.empty() ? "" : " --preset " + e.preset));
      }
      const std::vector<Result> results = read_results(root, e.name, read_sweep(file));
      Table table(
          {"claim", "metric", "arm", "where", "role", "n", "mean", "95 % interval", "band", "verdict"});
      bool all_ok = true;
      for (const Band& band : e.expected) {
        if (!band.preset.empty() && band.preset != e.preset) continue;
        std::vector<double> values;
        size_t wanted = 0;
        for (const Result& result : results) {
          if (!takes(band, result) || result.row.arm == band.against) continue;
          ++wanted;
          try {
            const auto value = value_of(band, result, results);
            if (value && std::isfinite(*value)) values.push_back(*value);
          } catch (const Error&
                       error) {  // one damaged run, or a band on what is no number: the others still count
            fmt::print(stderr, "{}: {}\n", band.at, error.what());
          }
        }
        const MeanInterval measured = mean_interval(values);
        const std::string outcome = verdict(band, measured, wanted);
        all_ok &= outcome == "ok";
        std::string where;
        for (const auto& [key, value] : band.where.entries)
          where += (where.empty() ? "" : " ") + key + "=" + value.text;
        table.add(
            {band.claim, name_of(band), band.arm.empty() ? "all" : band.arm, where, band.role,
             fmt::format("{}", values.size()), values.empty() ? "" : fmt::format("{:.4g}", measured.mean),
             values.size() < 2 ? "" : fmt::format("{:.4g}..{:.4g}", measured.low, measured.high),
             fmt::format("[{:.4g}, {:.4g}]{}", band.low, band.high, band.interval ? " ci" : ""), outcome});
      }
      fmt::print("{}", table.text());
      if (table.size() == 0) {
        throw ConfigError(fmt::format("{}: expects nothing of preset '{}'",
                                      experiment_file(options->name).string(), e.preset));
      }
      return all_ok ? 0 : 3;
    };
  });
}

}  // namespace copylab
