// copylab verify: measured results against the bands that the experiment expects.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/schedule/run_index.h"
#include "experiments/schedule/sweep_file.h"
#include "experiments/store/run_folder.h"

namespace copylab {
namespace {

namespace fs = std::filesystem;

// A row of the sweep file with the settings of its run.
struct Result {
  SweepRow row;
  fs::path folder;
  std::optional<Settings> settings;
};

std::vector<Result> read_results(const fs::path& root, const std::string& experiment, const Sweep& sweep) {
  const RunIndex index(root);
  std::vector<Result> results;
  for (const SweepRow& row : sweep.rows) {
    Result result{row, root / experiment / row.run, {}};
    const auto id = id_of_folder(row.run);
    if (!fs::exists(result.folder) && id) result.folder = index.choose(*id, result.folder);
    if (row.status == "done" && fs::exists(result.folder / "config.yaml")) {
      result.settings = load_settings(result.folder / "config.yaml");
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::string verdict(const Band& band, const std::vector<double>& values, size_t wanted, double mean) {
  if (wanted == 0) return "no such cells";
  if (values.size() < wanted) return fmt::format("missing {} of {}", wanted - values.size(), wanted);
  return mean >= band.low && mean <= band.high ? "ok" : "OUTSIDE";
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
      Table table({"claim", "metric", "arm", "where", "role", "n", "mean", "min..max", "band", "verdict"});
      bool all_ok = true;
      for (const Band& band : e.expected) {
        if (!band.preset.empty() && band.preset != e.preset) continue;
        std::vector<double> values;
        size_t wanted = 0;
        for (const Result& result : results) {
          if (!matches(Catalogue::installed(), band, result.row.arm,
                       {result.row.tune, result.row.best, result.row.same},
                       result.settings ? &*result.settings : nullptr)) {
            continue;
          }
          ++wanted;
          const auto value = result.settings ? read_metric(result.folder, band.metric) : std::nullopt;
          if (value && std::isfinite(*value)) values.push_back(*value);
        }
        // Divided once: the mean of ones is one.
        const double mean = std::accumulate(values.begin(), values.end(), 0.0) /
                            static_cast<double>(std::max<size_t>(1, values.size()));
        const std::string outcome = verdict(band, values, wanted, mean);
        all_ok &= outcome == "ok";
        std::string where;
        for (const auto& [key, value] : band.where.entries)
          where += (where.empty() ? "" : " ") + key + "=" + value.text;
        const auto [low, high] = std::minmax_element(values.begin(), values.end());
        table.add({band.claim, band.metric, band.arm.empty() ? "all" : band.arm, where, band.role,
                   fmt::format("{}", values.size()), values.empty() ? "" : fmt::format("{:.4g}", mean),
                   values.empty() ? "" : fmt::format("{:.4g}..{:.4g}", *low, *high),
                   fmt::format("[{:.4g}, {:.4g}]", band.low, band.high), outcome});
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
