// copylab sweep: an experiment with other axes, typed on the command line.
#include <memory>

#include "experiments/cli/run_cells.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"

namespace copylab {

void add_sweep(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("sweep", "run an experiment over lists of values of any key");
  struct Options {
    ExperimentOptions experiment;
    RunOptions run;
  };
  auto options = std::make_shared<Options>();
  options->experiment.add_to(*verb);
  verb->add_option("key=values", options->experiment.overrides.sweeps,
                   "axes: key=a,b,c; of lists: key=[1,2],[3]; key=value sets one value")
      ->required();
  verb->add_flag("--zip", options->experiment.overrides.zip,
                 "walk the axes together instead of all combinations");
  options->run.add_to(*verb);
  verb->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      return run_expansion(options->experiment.expand(), options->run, invocation.command);
    };
  });
}

}  // namespace copylab
