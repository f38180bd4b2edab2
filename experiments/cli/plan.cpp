// copylab plan: what an experiment will run and cost; runs nothing.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/values.h"
#include "experiments/plan/estimate.h"

namespace copylab {
namespace {

// Share of the machine's matrix rate that small models reach.
constexpr double kEfficiency = 0.5;

std::string mebibytes(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

std::string tera(double flops) {
  return fmt::format("{:.3g}", flops / 1e12);
}

// One line for each arm, coordinates and stage; seeds differ in nothing that costs.
struct Line {
  const Cell* cell;
  const Stage* stage;
  Estimate cost;
};

std::vector<Line> lines_of(const Expansion& expansion) {
  std::vector<Line> lines;
  std::set<std::string> ids;
  for (const Cell& cell : expansion.first()) {
    if (cell.seed != expansion.first().front().seed) continue;
    for (const Stage& stage : cell.stages) {
      if (ids.insert(stage.id).second) lines.push_back({&cell, &stage, estimate(stage.settings)});
    }
  }
  return lines;
}

void print_table(const Expansion& expansion, const std::vector<Line>& lines) {
  std::vector<std::string> header = {"arm"};
  for (const std::string& key : expansion.coordinates()) header.push_back(key);
  if (!expansion.experiment().stages.empty()) header.push_back("stage");
  for (const char* name :
       {"parameters", "steps", "tokens", "GFLOP/step", "train TFLOP", "eval", "measures", "MiB"})
    header.push_back(name);
  for (const auto& [name, value] : lines.front().cost.budget) header.push_back(name);
  Table table(header);
  for (const Line& line : lines) {
    std::vector<std::string> row = {line.cell->arm};
    for (const auto& [key, value] : line.cell->coordinates) row.push_back(format_value(value));
    if (!expansion.experiment().stages.empty()) row.push_back(line.stage->name);
    const Estimate& cost = line.cost;
    const double gflop =
        cost.training_flops() / static_cast<double>(std::max<int64_t>(1, cost.plan.steps)) / 1e9;
    row.insert(row.end(),
               {short_number(static_cast<double>(cost.parameters)), fmt::format("{}", cost.plan.steps),
                short_number(static_cast<double>(cost.tokens())), fmt::format("{:.3g}", gflop),
                tera(cost.training_flops()), tera(cost.evaluation_flops), tera(cost.measure_flops),
                mebibytes(cost.memory.total())});
    for (const auto& [name, value] : cost.budget) row.push_back(fmt::format("{:.4g}", value));
    table.add(row);
  }
  fmt::print("{}", table.text());
}

void print_memory(const Line& line) {
  const MemoryEstimate& m = line.cost.memory;
  fmt::print(
      "\nLargest run ({}): {} MiB = parameters {} + gradients {} + optimizer {} + activations {} + "
      "evaluation {}; {} MiB "
      "are free now\n",
      std::filesystem::path(line.stage->folder).filename().string(), mebibytes(m.total()),
      mebibytes(m.parameters), mebibytes(m.gradients), mebibytes(m.optimizer), mebibytes(m.activations),
      mebibytes(m.evaluation), mebibytes(available_memory()));
  if (const std::string problem = memory_problem(m, available_memory()); !problem.empty()) {
    fmt::print("  {}\n", problem);
  }
}

void print_time(const Expansion& expansion, const std::vector<Line>& lines) {
  double first = 0;
  std::set<std::string> ids;
  for (const Cell& cell : expansion.first()) {
    for (const Stage& stage : cell.stages) {
      if (ids.insert(stage.id).second) first += estimate(stage.settings).flops();
    }
  }
  // Which values a selection will choose is not known yet: its runs cost as much as the first ones on
  // average.
  const double cells = static_cast<double>(expansion.largest_count());
  const double all = first * cells / static_cast<double>(expansion.first().size());
  const double rate = matrix_rate() * kEfficiency;
  fmt::print(
      "\n{}{} cells, {} lines above, {} TFLOP: about {} at {:.3g} GFLOP/s ({:.0f} % of this machine's matrix "
      "rate)\n",
      expansion.experiment().select ? "Up to " : "", expansion.largest_count(), lines.size(), tera(all),
      duration(all / rate), rate / 1e9, 100 * kEfficiency);
}

}  // namespace

void add_plan(CLI::App& app, Invocation& invocation) {
  CLI::App* verb =
      app.add_subcommand("plan", "cells, parameters, memory, FLOPs and time of an experiment; runs nothing");
  auto options = std::make_shared<ExperimentOptions>();
  options->add_to(*verb);
  verb->add_option("key=value", options->overrides.assignments, "settings over those of the experiment");
  verb->callback([options, &invocation] {
    invocation.action = [options] {
      const Expansion expansion = options->expand();
      const Experiment& e = expansion.experiment();
      fmt::print("{}{}: {}\n", e.name, e.preset.empty() ? "" : " (" + e.preset + ")", e.title);
      if (e.select) {
        fmt::print("{} is tuned by {} on seeds {}, then reported on seeds {}\n", e.select->over, e.select->by,
                   fmt::join(e.select->seeds, ", "), fmt::join(e.seeds, ", "));
      } else {
        fmt::print("seeds {}\n", fmt::join(e.seeds, ", "));
      }
      fmt::print("\n");
      const std::vector<Line> lines = lines_of(expansion);
      print_table(expansion, lines);
      print_memory(*std::max_element(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
        return a.cost.memory.total() < b.cost.memory.total();
      }));
      print_time(expansion, lines);
      return 0;
    };
  });
}

}  // namespace copylab
