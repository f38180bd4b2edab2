// copylab test: handed to the launcher, which owns what it needs.
#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"

namespace copylab {

void add_test(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("test", "build and run all tests");
  verb->prefix_command();
  verb->callback([verb, &invocation] {
    invocation.action = [verb]() -> int {
      std::vector<std::string> command = {(project_root() / "copylab").string(), "test"};
      for (const std::string& word : verb->remaining()) command.push_back(word);
      become(command);
    };
  });
}

}  // namespace copylab
