// copylab check: the promises that can be put to the test on this machine.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "experiments/check/check_backends.h"
#include "experiments/check/check_gradients.h"
#include "experiments/check/check_resume.h"
#include "experiments/check/check_tasks.h"
#include "experiments/check/check_threads.h"
#include "experiments/cli/verbs.h"
#include "experiments/schedule/process.h"

namespace copylab {

void add_check(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("check", "put a promise to the test; exit code 3 if it is broken");
  verb->require_subcommand(1);
  const auto add = [&](const char* name, const char* doc, std::function<int()> action) {
    verb->add_subcommand(name, doc)->callback([action, &invocation] { invocation.action = action; });
  };
  add("gradients", "whole-model gradients against finite differences in float64, for every head option",
      [] { return check_gradients(std::cout); });
  add("threads", "the same bits for 1, 2 and 3 threads", [] { return check_threads(std::cout); });
  add("tasks", "solver, chance, balance, duplicates and data hash of every task",
      [] { return check_tasks(std::cout); });
  add("backends", "float32 of each backend against float64: rounding or a bug",
      [] { return check_backends(std::cout); });

  auto kills = std::make_shared<int>(20);
  CLI::App* resume = verb->add_subcommand("resume", "runs that are killed and resumed end in the same bits");
  resume->add_option("--kills", *kills, "runs to kill (default: 20)")->check(CLI::Range(1, 10000));
  resume->callback([kills, &invocation] {
    invocation.action = [kills] { return check_resume({this_program(), "worker"}, *kills, std::cout); };
  });
}

}  // namespace copylab
