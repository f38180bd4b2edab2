// copylab list: what there is to run and to set.
#include <fmt/format.h>

#include <memory>

#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/values.h"

namespace copylab {
namespace {

void list_experiments() {
  Table table({"experiment", "presets", "claims", "title"});
  for (const std::string& name : experiment_names()) {
    const Experiment e = load_experiment(experiment_file(name), "none");
    table.add({e.name, fmt::format("{}", fmt::join(e.presets, " ")),
               fmt::format("{}", fmt::join(e.claims, " ")), e.title});
  }
  fmt::print("{}", table.text());
}

void list_choices(const std::string& what, const std::vector<Choice>& choices) {
  Table table({what, "keys", "what it is"});
  for (const Choice& choice : choices) {
    table.add({choice.name, fmt::format("{}", choice.fields.size()), choice.doc});
  }
  fmt::print("{}", table.text());
}

void list_config() {
  Table table({"key", "default", "accepts", "what it is"});
  for (const auto& [field, owner] : Catalogue::installed().all()) {
    std::string doc = field.doc;
    if (!owner.empty()) doc += " [" + owner + "]";
    if (!field.semantic) doc += " [not in the run id]";
    table.add({field.path, format_value(field.fallback), expectation(field), doc});
  }
  fmt::print("{}", table.text());
}

}  // namespace

void add_list(CLI::App& app, Invocation& invocation) {
  CLI::App* verb =
      app.add_subcommand("list", "experiments, tasks, heads, measures, or the keys of a configuration");
  auto what = std::make_shared<std::string>("all");
  verb->add_option("WHAT", *what, "experiments, tasks, heads, measures or config (default: all but config)")
      ->check(CLI::IsMember({"all", "experiments", "tasks", "heads", "measures", "config"}));
  verb->callback([what, &invocation] {
    invocation.action = [what] {
      const Catalogue& catalogue = Catalogue::installed();
      const bool all = *what == "all";
      if (all || *what == "experiments") list_experiments();
      if (all) fmt::print("\n");
      if (all || *what == "tasks") list_choices("task", catalogue.tasks);
      if (all) fmt::print("\n");
      if (all || *what == "heads") list_choices("head", catalogue.heads);
      if (all) fmt::print("\n");
      if (all || *what == "measures") list_choices("measure", catalogue.measures);
      if (*what == "config") list_config();
      return 0;
    };
  });
}

}  // namespace copylab
