// The two phases of a sweep.
#include "experiments/schedule/sweep.h"

#include <fmt/format.h>

#include "core/io/temporary.h"
#include "experiments/schedule/sweep_file.h"
#include "experiments/store/run_folder.h"

namespace copylab {
namespace {

std::vector<SweepRow> rows_of(const std::vector<Cell>& cells, const Scheduler& scheduler) {
  std::vector<SweepRow> rows;
  for (const Cell& cell : cells) {
    SweepRow row{"", cell.arm, cell.seed, "missing", cell.tune, cell.best, cell.same, {}};
    row.run = std::filesystem::path(cell.result().folder).filename().string();
    if (const Job* job = scheduler.find(cell.result().id)) {
      row.run = job->folder.filename().string();
      if (job->state == Job::State::done) row.status = "done";
      if (job->state == Job::State::failed) row.status = "failed";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

SweepResult run_sweep(const Expansion& expansion, Scheduler& scheduler, const std::filesystem::path& root,
                      const std::string& command) {
  SweepResult result;
  result.cells = expansion.first();
  const auto store = [&] {
    write_sweep(root, expansion, result.cells, rows_of(result.cells, scheduler), command);
  };
  remove_leftovers(sweep_path(root, expansion.experiment()).parent_path());
  store();
  scheduler.set_on_change(store);
  scheduler.run(result.cells);
  if (expansion.experiment().select && !scheduler.stopped()) {
    result.cells = expansion.select([&](const Cell& cell) -> std::optional<double> {
      const Job* job = scheduler.find(cell.result().id);
      if (!job || job->state != Job::State::done) return std::nullopt;
      return read_metric(job->folder, expansion.experiment().select->by);
    });
    scheduler.run(result.cells);
  }
  store();
  scheduler.set_on_change({});
  result.failed = scheduler.count(Job::State::failed);
  result.interrupted = scheduler.interrupted();
  return result;
}

int exit_code(const Scheduler& scheduler) {
  if (scheduler.interrupted()) return 130;
  return scheduler.count(Job::State::failed) > 0 ? 1 : 0;
}

void print_summary(const Scheduler& scheduler, Display& display) {
  const int done = scheduler.count(Job::State::done), failed = scheduler.count(Job::State::failed);
  const int left = static_cast<int>(scheduler.jobs().size()) - done - failed;
  std::string text = fmt::format("{} runs: {} done", scheduler.jobs().size(), done);
  if (scheduler.reused() > 0) text += fmt::format(" ({} before)", scheduler.reused());
  if (failed > 0) text += fmt::format(", {} failed", failed);
  if (left > 0) text += fmt::format(", {} left", left);
  if (scheduler.interrupted()) text += "; the same command goes on from here";
  failed > 0 || left > 0 ? display.insist(text) : display.say(text);
  for (const Job& job : scheduler.jobs()) {
    if (job.state == Job::State::failed) {
      display.insist(fmt::format("  failed: {}: {}", job.folder.filename().string(), job.reason));
    }
  }
  display.event({{"event", "summary"},
                 {"runs", static_cast<int64_t>(scheduler.jobs().size())},
                 {"done", static_cast<int64_t>(done)},
                 {"reused", static_cast<int64_t>(scheduler.reused())},
                 {"failed", static_cast<int64_t>(failed)},
                 {"left", static_cast<int64_t>(left)},
                 {"interrupted", scheduler.interrupted()}});
}

}  // namespace copylab
