// The command line: verbs, their help, and what each error is worth as an exit code.
#include <fmt/format.h>

#include <cstdio>

#include "core/nearest.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"

namespace copylab {
namespace {

std::string typed_line(int argc, const char* const* argv) {
  std::string line = "copylab";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;#!~") == std::string::npos;
    line += ' ' + (plain ? word : "'" + word + "'");
  }
  return line;
}

int complain(const std::string& text, int code) {
  fmt::print(stderr, "copylab: {}\n", text);
  return code;
}

// What is wrong with word `i`, if it is none of the verbs of `app`: named with the nearest one.
std::string unknown_verb(const CLI::App& app, int argc, const char* const* argv, int i = 1) {
  const std::string word = i < argc ? argv[i] : "";
  if (word.starts_with('-')) return "";
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_name() == word) return unknown_verb(*verb, argc, argv, i + 1);
    if (!verb->get_group().empty()) verbs.push_back(verb->get_name());
  }
  if (verbs.empty()) return "";  // it takes none
  const std::string problem =
      word.empty() ? app.get_name() + " alone" : fmt::format("unknown verb '{} {}'", app.get_name(), word);
  return fmt::format("{}: expected one of {}{}", problem, fmt::join(verbs, ", "), did_you_mean(word, verbs));
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  CLI::App app(
      "copylab: small language models under controlled ablations of copying, pointing and gradient "
      "bottlenecks.\n"
      "Start with:  copylab list    copylab plan spamlang    copylab run spamlang --preset smoke",
      "copylab");
  Invocation invocation;
  invocation.command = typed_line(argc, argv);
  for (const auto add :
       {add_list, add_plan, add_run, add_sweep, add_figures, add_verify, add_status, add_show, add_measure,
        add_eval, add_generate, add_data, add_check, add_bench, add_doctor, add_test, add_worker}) {
    add(app, invocation);
  }
  app.require_subcommand(1);
  app.footer(
      "key=value takes any key of `copylab list config`.\n"
      "Exit codes: 0 done, 1 some runs failed, 2 usage or configuration, 3 a check found a difference, 130 "
      "interrupted.");
  if (const std::string problem = unknown_verb(app, argc, argv); !problem.empty())
    return complain(problem, 2);
  try {
    app.parse(argc, argv);
    return invocation.action();
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain(error.what() + std::string(" (copylab VERB --help shows what is expected)"), 2);
  } catch (const ConfigError& error) {
    return complain(error.what(), 2);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}

}  // namespace copylab
