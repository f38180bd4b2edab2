// From an expansion to finished runs, with what is printed on the way.
#include "experiments/cli/run_cells.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>

#include "experiments/config/resolve.h"
#include "experiments/plan/estimate.h"
#include "experiments/schedule/process.h"
#include "experiments/schedule/sweep.h"
#include "experiments/schedule/sweep_file.h"

namespace copylab {
namespace {

ScheduleOptions schedule_options(const RunOptions& options, const std::string& command,
                                 const std::vector<Cell>& cells) {
  ScheduleOptions schedule;
  schedule.root = results_root(options.out);
  schedule.processors = omp_get_num_procs();
  schedule.jobs = options.jobs > 0 ? options.jobs : default_jobs(cells, schedule.processors);
  schedule.command = command;
  schedule.fail_fast = options.fail_fast;
  schedule.worker = {this_program(), "worker"};
  return schedule;
}

double cost_of(const Stage& stage) {
  return estimate(stage.settings).flops();
}

}  // namespace

int default_jobs(const std::vector<Cell>& cells, int processors) {
  const bool gpu = std::any_of(cells.begin(), cells.end(), [](const Cell& cell) {
    return std::any_of(cell.stages.begin(), cell.stages.end(),
                       [](const Stage& stage) { return stage.settings.text("run.device") == "cuda"; });
  });
  return gpu ? 1 : processors;
}

void RunOptions::add_to(CLI::App& verb) {
  verb.add_option("--jobs", jobs,
                  "runs at a time; the threads are divided (default: one per processor; on a GPU, one)")
      ->check(CLI::Range(1, 4096));
  verb.add_flag("--fail-fast", fail_fast, "start no more runs after a failure");
  verb.add_option("--out", out, "folder of the results (default: results)")->check(not_empty());
  display.add_to(verb);
}

int run_expansion(const Expansion& expansion, const RunOptions& options, const std::string& command) {
  Display display(options.display.mode(), stdout);
  const Experiment& e = expansion.experiment();
  const std::filesystem::path root = results_root(options.out);
  const std::filesystem::path file = sweep_path(root, e);
  display.say(fmt::format("{}{}: {}{} cells; results in {}", e.name,
                          e.preset.empty() ? "" : " (" + e.preset + ")", e.select ? "up to " : "",
                          expansion.largest_count(), file.parent_path().string()));
  Scheduler scheduler(schedule_options(options, command, expansion.first()), display);
  scheduler.set_cost(cost_of);
  run_sweep(expansion, scheduler, root, command);
  print_summary(scheduler, display);
  display.say(file.string());
  return exit_code(scheduler);
}

int run_settings(const Settings& settings, const RunOptions& options, const std::string& command) {
  Display display(options.display.mode(), stdout);
  Cell cell;
  Stage stage;
  stage.settings = settings;
  stage.id = run_id(settings);
  stage.folder = settings.text("run.experiment") + "/" + settings.text("run.cell") + "-" + stage.id;
  cell.stages.push_back(stage);
  Scheduler scheduler(schedule_options(options, command, {cell}), display);
  scheduler.set_cost(cost_of);
  scheduler.run({cell});
  print_summary(scheduler, display);
  display.say(scheduler.jobs().front().folder.string());
  return exit_code(scheduler);
}

}  // namespace copylab
