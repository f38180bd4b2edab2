// copylab generate: not in this version.
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"

namespace copylab {

void add_generate(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand(
      "generate", "continue a prompt with a trained model (comes with a later experiment)");
  verb->allow_extras();
  verb->callback([&invocation] {
    invocation.action = []() -> int {
      throw ConfigError(
          "generate: comes with a later experiment, on text; `copylab eval` reads a model's predictions");
    };
  });
}

}  // namespace copylab
