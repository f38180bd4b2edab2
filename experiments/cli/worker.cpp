// copylab worker: carries one run to its end; started by the scheduler.
#include "experiments/train/worker.h"

#include <memory>

#include "experiments/cli/verbs.h"

namespace copylab {

void add_worker(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("worker", "carry the run in a folder to its end")->group("");
  struct Options {
    std::string run, parent;
  };
  auto options = std::make_shared<Options>();
  verb->add_option("RUN", options->run, "folder with config.yaml")->required();
  verb->add_option("--parent", options->parent, "folder of the run that it starts from");
  verb->callback([options, &invocation] {
    invocation.action = [options] { return run_worker(options->run, options->parent); };
  });
}

}  // namespace copylab
