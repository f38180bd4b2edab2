// copylab run: all runs of an experiment, or one run from its config.yaml.
#include <memory>

#include "experiments/cli/run_cells.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"
#include "experiments/config/resolve.h"

namespace copylab {

void add_run(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand(
      "run", "run an experiment; done runs are skipped and half-done ones resumed, so the same line goes on");
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
  };
  auto options = std::make_shared<Options>();
  options->experiment.add_to(*verb);
  verb->add_option("key=value", options->experiment.overrides.assignments,
                   "settings over those of the experiment");
  options->run.add_to(*verb);
  verb->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      const ExperimentOptions& experiment = options->experiment;
      const std::filesystem::path file = experiment_file(experiment.name);
      if (!is_run_config(file)) return run_expansion(experiment.expand(), options->run, invocation.command);
      if (!experiment.overrides.empty() || !experiment.preset.empty()) {
        throw ConfigError(file.string() +
                          ": is the configuration of one run: expected no preset, seeds, arms or key=value");
      }
      Settings settings = load_settings(file);
      if (!experiment.device.empty()) settings.set("run.device", experiment.device);
      check_device(settings);
      return run_settings(settings, options->run, invocation.command);
    };
  });
}

}  // namespace copylab
