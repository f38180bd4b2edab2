// Verbs of the command line; each is declared here and lives in a file of its name.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace copylab {

// One call of the program.
struct Invocation {
  std::string command;          // the line that the user typed
  std::function<int()> action;  // of the verb that was chosen; returns the exit code
};

// Each adds its subcommand, which sets invocation.action when it is chosen.
void add_list(CLI::App& app, Invocation& invocation);
void add_plan(CLI::App& app, Invocation& invocation);
void add_run(CLI::App& app, Invocation& invocation);
void add_sweep(CLI::App& app, Invocation& invocation);
void add_figures(CLI::App& app, Invocation& invocation);
void add_verify(CLI::App& app, Invocation& invocation);
void add_status(CLI::App& app, Invocation& invocation);
void add_show(CLI::App& app, Invocation& invocation);
void add_measure(CLI::App& app, Invocation& invocation);
void add_eval(CLI::App& app, Invocation& invocation);
void add_generate(CLI::App& app, Invocation& invocation);
void add_data(CLI::App& app, Invocation& invocation);
void add_check(CLI::App& app, Invocation& invocation);
void add_bench(CLI::App& app, Invocation& invocation);
void add_doctor(CLI::App& app, Invocation& invocation);
void add_test(CLI::App& app, Invocation& invocation);
void add_worker(CLI::App& app, Invocation& invocation);  // hidden: what the scheduler starts

// The whole program: 0 done, 1 something failed, 2 usage or configuration, 3 a check found a difference,
// 130 interrupted.
int run_cli(int argc, const char* const* argv);

}  // namespace copylab
