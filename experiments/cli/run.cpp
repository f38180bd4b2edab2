// copylab run: all runs of an experiment, or one run from its config.yaml.
#include <memory>

#include "experiments/cli/run_cells.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/plan/estimate.h"

namespace copylab {
namespace {

// Replaces this program by the launcher's figures verb, so that its exit code and messages are those of
// figures.
void draw_figures(const Experiment& experiment, const std::string& results) {
  std::vector<std::string> command = {(project_root() / "copylab").string(), "figures"};
  command.insert(command.end(), experiment.figures.begin(), experiment.figures.end());
  command.insert(command.end(), {"--from", std::filesystem::absolute(results_root(results)).string()});
  command.insert(command.end(), {"--preset", experiment.index()});
  become(command);
}

}  // namespace

void add_run(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand(
      "run", "run an experiment; done runs are skipped and half-done ones resumed, so the same line goes on");
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
    bool no_figures = false;
  };
  auto options = std::make_shared<Options>();
  options->experiment.add_to(*verb);
  verb->add_option("key=value", options->experiment.overrides.assignments,
                   "settings over those of the experiment");
  options->run.add_to(*verb);
  verb->add_flag("--no-figures", options->no_figures, "leave the figures for later (copylab figures NAME)");
  verb->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      const ExperimentOptions& experiment = options->experiment;
      const std::filesystem::path file = experiment_file(experiment.name);
      if (!is_run_config(file)) {
        const Expansion expansion = experiment.expand();
        const int code = run_expansion(expansion, options->run, invocation.command);
        const bool wanted = !options->no_figures && !expansion.experiment().figures.empty();
        if (code == 0 && wanted) draw_figures(expansion.experiment(), options->run.out);
        return code;
      }
      if (!experiment.overrides.empty() || !experiment.preset.empty()) {
        throw ConfigError(file.string() +
                          ": is the configuration of one run: expected no preset, seeds, arms or key=value");
      }
      Settings settings = load_settings(file);
      if (!experiment.device.empty()) settings.set("run.device", experiment.device);
      complete(Catalogue::installed(), settings);
      check_device(settings);
      expect_consistent(settings);
      return run_settings(settings, options->run, invocation.command);
    };
  });
}

}  // namespace copylab
