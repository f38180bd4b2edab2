// copylab bench: handed to the launcher, which owns what it needs.
#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"

namespace copylab {

void add_bench(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("bench", "build and run the benchmarks");
  verb->prefix_command();
  verb->callback([verb, &invocation] {
    invocation.action = [verb]() -> int {
      std::vector<std::string> command = {(project_root() / "copylab").string(), "bench"};
      for (const std::string& word : verb->remaining()) command.push_back(word);
      become(command);
    };
  });
}

}  // namespace copylab
