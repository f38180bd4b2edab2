// Verbs that are handed to the launcher, which owns what they need: figures, bench, test.
#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"

namespace copylab {
namespace {

void hand_over(CLI::App& app, Invocation& invocation, const std::string& name, const std::string& doc) {
  CLI::App* verb = app.add_subcommand(name, doc);
  verb->prefix_command();
  verb->callback([verb, name, &invocation] {
    invocation.action = [verb, name]() -> int {
      std::vector<std::string> command = {(project_root() / "copylab").string(), name};
      for (const std::string& word : verb->remaining()) command.push_back(word);
      become(command);
    };
  });
}

}  // namespace

void add_figures(CLI::App& app, Invocation& invocation) {
  hand_over(app, invocation, "figures", "draw figures from results (PDF, PNG)");
}

void add_bench(CLI::App& app, Invocation& invocation) {
  hand_over(app, invocation, "bench", "build and run the benchmarks");
}

void add_test(CLI::App& app, Invocation& invocation) {
  hand_over(app, invocation, "test", "build and run all tests");
}

}  // namespace copylab
