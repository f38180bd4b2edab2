// copylab show: a run's configuration and numbers.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <memory>

#include "experiments/cli/common.h"
#include "experiments/cli/show.h"
#include "experiments/cli/verbs.h"
#include "experiments/schedule/run_index.h"
#include "experiments/store/metrics.h"
#include "experiments/store/run_folder.h"

namespace copylab {

void print_result(const std::string& name, const MeasureOutput& output) {
  fmt::print("{}:\n", name);
  Table table({});
  for (const auto& [array, content] : output.arrays) {
    std::string value;
    if (content.shape.empty()) {
      value = fmt::format("{:.6g}", content.values.at(0));
    } else {
      value = fmt::format("({}) by {}", fmt::join(content.shape, ", "), fmt::join(content.dims, ", "));
    }
    table.add({"  " + array, value, content.doc});
  }
  fmt::print("{}", table.text());
}

void add_show(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("show", "a run's configuration and numbers");
  struct Options {
    std::string run, root;
  };
  auto options = std::make_shared<Options>();
  verb->add_option("RUN", options->run, "a run's folder, or a part of its name (its id, for example)")
      ->required();
  verb->add_option("--from", options->root, "folder of the results (default: results)");
  verb->callback([options, &invocation] {
    invocation.action = [options] {
      const RunFolder folder{find_run(results_root(options->root), options->run)};
      const RunState state = run_state(folder.path);
      fmt::print("{}: {}{}\n\n", folder.path.string(), name_of(state),
                 state == RunState::failed ? ": " + folder.failure() : "");
      std::ifstream config(folder.config());
      fmt::print("{}\n", std::string(std::istreambuf_iterator<char>(config), {}));
      if (!std::filesystem::exists(folder.metrics())) return 0;
      const Metrics metrics = read_metrics(folder.metrics());
      if (!metrics.train.empty()) {
        const TrainRow& row = metrics.train.back();
        fmt::print("train: step {}, {} tokens, loss {:.4g}, {} tokens/s, {} in all\n", row.step, row.tokens,
                   row.loss, short_number(row.tokens_per_s), duration(metrics.wall_s));
      }
      if (!metrics.valid.empty()) {
        const ValidRow& row = metrics.valid.back();
        fmt::print("valid: step {}, loss {:.4g}, accuracy {:.4g}\n", row.step, row.loss, row.accuracy);
      }
      for (const auto& [name, result] : metrics.results) print_result(name, result.output);
      return 0;
    };
  });
}

}  // namespace copylab
