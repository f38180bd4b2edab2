// copylab measure: a registered measure on a finished run, without training.
#include <fmt/format.h>

#include <memory>

#include "core/nearest.h"
#include "experiments/cli/common.h"
#include "experiments/cli/show.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"
#include "experiments/evaluate/measure_run.h"
#include "experiments/schedule/run_index.h"

namespace copylab {
namespace {

void check_measure(const std::string& name) {
  const Catalogue& catalogue = Catalogue::installed();
  if (catalogue.measure(name)) return;
  std::vector<std::string> names;
  for (const Choice& choice : catalogue.measures) names.push_back(choice.name);
  throw ConfigError(fmt::format("unknown measure '{}': expected one of {}{}", name, fmt::join(names, ", "),
                                did_you_mean(name, names)));
}

}  // namespace

void add_measure(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("measure", "a measure on a finished run, without training it again");
  struct Options {
    std::string run, measure, root;
    std::vector<std::string> assignments;
  };
  auto options = std::make_shared<Options>();
  verb->add_option("RUN", options->run, "a run's folder, or a part of its name")->required();
  verb->add_option("MEASURE", options->measure, "one of `copylab list measures`")->required();
  verb->add_option("key=value", options->assignments,
                   "settings of the measure: samples=100, or the whole key");
  verb->add_option("--from", options->root, "folder of the results (default: results)");
  verb->callback([options, &invocation] {
    invocation.action = [options] {
      check_measure(options->measure);
      std::vector<RawConfig::Entry> changes;
      for (const std::string& text : options->assignments) {
        RawConfig::Entry entry = parse_assignment(text);
        if (entry.key.find('.') == std::string::npos)
          entry.key = "measure." + options->measure + "." + entry.key;
        changes.push_back(std::move(entry));
      }
      const std::filesystem::path run = find_run(results_root(options->root), options->run);
      print_result(options->measure, measure_run(run, options->measure, changes));
      return 0;
    };
  });
}

}  // namespace copylab
