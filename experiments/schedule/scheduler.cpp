// The loop that starts, watches and ends worker processes.
#include "experiments/schedule/scheduler.h"

#include <algorithm>
#include <csignal>

#include "core/io/hdf5.h"
#include "experiments/clock.h"
#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/config/run_fields.h"
#include "experiments/schedule/interrupt.h"
#include "experiments/store/run_folder.h"

namespace copylab {
namespace fs = std::filesystem;
namespace {

// Exit codes of a worker.
constexpr int kInterrupted = 130;

// Adds the measures that `wanted` asks for, with its settings, to those that a run already has.
Settings with_measures(Settings present, const Settings& wanted) {
  std::vector<std::string> names = measure_names(present.text("run.measures"));
  for (const std::string& name : measure_names(wanted.text("run.measures"))) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  present.set("run.measures", fmt::format("{}", fmt::join(names, ",")));
  for (const auto& [path, value] : wanted.values()) {
    if (path.starts_with("measure.")) present.set(path, value);
  }
  return present;
}

// Why a finished run gives less to the measures over training than `wanted` asks for, or "".
std::string lacks_checkpoints(const Settings& present, const Settings& wanted) {
  const auto over_training = [&](const std::string& name) {
    const std::string key = "measure." + name + ".over_training";
    return wanted.has(key) && wanted.flag(key);
  };
  const std::vector<std::string> names = measure_names(wanted.text("run.measures"));
  const int64_t has = present.integer("train.keep"), asked = wanted.integer("train.keep");
  if (asked <= has || std::none_of(names.begin(), names.end(), over_training)) return "";
  return fmt::format(
      "trained with train.keep={}, and a finished run gains no checkpoints: measures over training see those "
      "that it "
      "has; move the folder away to train it with train.keep={}",
      has, asked);
}

// Makes the folder's config.yaml say what is wanted, and keeps what it said of things outside of the run's
// id. Returns what it said.
std::optional<Settings> write_config(const fs::path& folder, const Stage& stage, const std::string& command) {
  fs::create_directories(folder);
  const fs::path file = folder / "config.yaml";
  if (!fs::exists(file)) {
    Settings fresh = stage.settings;
    fresh.set("run.command", command);
    h5::write_text(file, to_yaml(fresh));
    return std::nullopt;
  }
  const Settings present = load_settings(file);
  if (run_id(present) != stage.id) {
    throw Error(
        fmt::format("{} is not the configuration of {}: move the folder away", file.string(), stage.id));
  }
  const Settings wanted = with_measures(present, stage.settings);
  if (wanted.values() != present.values()) h5::write_text(file, to_yaml(wanted));
  return present;
}

std::string numbers_of(const fs::path& folder) {
  std::string text;
  for (const char* name : {"valid/loss", "test/loss", "test/accuracy"}) {
    if (const auto value = read_metric(folder, name)) text += fmt::format("  {} {:.4g}", name, *value);
  }
  return text;
}

}  // namespace

struct Scheduler::Worker {
  size_t job;
  Process process;
  Clock::time_point begun = Clock::now();
  Clock::time_point event = {};  // when a progress event was last passed on
  double step = 0, steps = 0, loss = 0, tokens_per_s = 0;
  std::string last_error = {};  // line of stderr
};

Scheduler::Scheduler(ScheduleOptions options, Display& display)
    : options_(std::move(options)), display_(display), index_(options_.root), begun_(Clock::now()) {
  if (options_.jobs <= 0) options_.jobs = options_.processors;
}

Scheduler::~Scheduler() = default;

const Job* Scheduler::find(const std::string& id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &jobs_[it->second];
}

int Scheduler::count(Job::State state) const {
  return static_cast<int>(
      std::count_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.state == state; }));
}

int Scheduler::reused() const {
  return static_cast<int>(std::count_if(jobs_.begin(), jobs_.end(), [](const Job& j) { return j.reused; }));
}

void Scheduler::add(const Stage& stage) {
  const auto [it, fresh] = by_id_.try_emplace(stage.id, jobs_.size());
  if (!fresh) {  // asked for twice: with all the measures of both
    Job& job = jobs_[it->second];
    job.stage.settings = with_measures(job.stage.settings, stage.settings);
    return;
  }
  Job job;
  job.stage = stage;
  job.folder = index_.choose(stage.id, options_.root / stage.folder);
  if (cost_) job.cost = cost_(stage);
  jobs_.push_back(std::move(job));
}

fs::path Scheduler::parent_folder(const Job& job) const {
  const std::string& parent = job.stage.settings.text("run.parent");
  if (parent.empty()) return {};
  if (const Job* known = find(parent)) return known->folder;
  return index_.choose(parent, {});
}

void Scheduler::settle(Job& job) {
  const std::string& parent_id = job.stage.settings.text("run.parent");
  const Job* parent = find(parent_id);
  if (parent && parent->state == Job::State::failed) {
    fail(job, fmt::format("the stage before it failed ({})", parent->folder.filename().string()));
    return;
  }
  if (!parent_id.empty() && !parent && !RunFolder{parent_folder(job)}.trained()) {
    fail(job, fmt::format("it starts from run {}, which is not finished below {}", parent_id,
                          options_.root.string()));
    return;
  }
  try {
    const auto present = write_config(job.folder, job.stage, options_.command);
    if (present && RunFolder{job.folder}.trained()) {
      const std::string lacks = lacks_checkpoints(*present, job.stage.settings);
      if (!lacks.empty()) display_.insist(fmt::format("{}: {}", job.folder.filename().string(), lacks));
    }
    if (is_done(job.folder)) {
      job.state = Job::State::done;
      job.reused = true;
      job.progress = 1;
      report(job);
      return;
    }
  } catch (const std::exception& error) {
    fail(job, error.what());
    return;
  }
}

void Scheduler::start(size_t index) {
  const Job& job = jobs_[index];
  std::vector<std::string> command = options_.worker;
  command.push_back(job.folder.string());
  if (const fs::path parent = parent_folder(job); !parent.empty()) {
    command.push_back("--parent");
    command.push_back(parent.string());
  }
  const int together =
      std::min(options_.jobs, static_cast<int>(workers_.size()) + count(Job::State::waiting));
  const int threads = std::max(1, options_.processors / std::max(1, together));
  const std::vector<std::string> environment = {fmt::format("OMP_NUM_THREADS={}", threads)};
  workers_.push_back(std::unique_ptr<Worker>(new Worker{index, Process(command, environment)}));
}

void Scheduler::read(Worker& worker) {
  Job& job = jobs_[worker.job];
  worker.process.read([&](const std::string& line, bool error) {
    if (error) {
      if (!line.empty()) worker.last_error = line;
      return;
    }
    if (!line.starts_with('{')) return;
    worker.step = json_number(line, "step");
    worker.steps = json_number(line, "steps");
    worker.loss = json_number(line, "loss");
    worker.tokens_per_s = json_number(line, "tokens_per_s");
    if (worker.steps > 0) job.progress = std::min(1.0, worker.step / worker.steps);
    if (seconds_since(worker.event) < 1) return;
    worker.event = Clock::now();
    display_.event({{"event", "progress"},
                    {"run", job.folder.filename().string()},
                    {"step", worker.step},
                    {"steps", worker.steps},
                    {"loss", worker.loss},
                    {"tokens_per_s", worker.tokens_per_s}});
  });
}

void Scheduler::finish(Worker& worker) {
  Job& job = jobs_[worker.job];
  job.seconds = seconds_since(worker.begun);
  const int code = worker.process.exit_code();
  if (code == kInterrupted || (interrupted_ && code != 0)) {
    job.state = Job::State::stopped;
    return;
  }
  if (code == 0) {
    std::string missing;
    try {
      if (!is_done(job.folder)) missing = "the worker ended without a valid DONE";
    } catch (const std::exception& error) {
      missing = error.what();
    }
    if (!missing.empty()) {
      fail(job, missing);
      return;
    }
    job.state = Job::State::done;
    job.progress = 1;
    report(job);
    return;
  }
  std::string reason = worker.last_error;
  if (code < 0 || reason.empty()) {  // it could not say why
    reason = worker.process.ending();
    if (!worker.last_error.empty()) reason += ": " + worker.last_error;
    const RunFolder folder{job.folder};
    folder.append_log("FAILED: " + reason);
    h5::write_text(folder.failed(), reason + "\n");
  }
  fail(job, reason);
}

void Scheduler::fail(Job& job, const std::string& reason) {
  job.state = Job::State::failed;
  job.reason = reason;
  report(job);
  if (options_.fail_fast) stop_ = true;
}

void Scheduler::report(const Job& job) {
  const int ended = count(Job::State::done) + count(Job::State::failed);
  const std::string place = fmt::format("[{}/{}]", ended, jobs_.size());
  const std::string run = job.folder.filename().string();
  if (job.state == Job::State::failed) {
    display_.insist(fmt::format("{} FAILED {}: {}", place, run, job.reason));
  } else if (job.reused) {
    const bool own = job.folder == options_.root / job.stage.folder;
    display_.say(fmt::format("{} done before {}{}{}", place, run,
                             own ? "" : " in " + job.folder.parent_path().string(), numbers_of(job.folder)));
  } else {
    display_.say(fmt::format("{} done {}{}  {}", place, run, numbers_of(job.folder), duration(job.seconds)));
  }
  display_.event({{"event", "finished"},
                  {"run", run},
                  {"status", std::string(job.state == Job::State::failed ? "failed" : "done")},
                  {"reused", job.reused},
                  {"reason", job.reason},
                  {"seconds", job.seconds}});
  if (on_change_) on_change_();
}

void Scheduler::show() {
  if (!display_.is_live() || workers_.empty()) return;
  double all = 0, ended = 0, reused = 0;
  for (const Job& job : jobs_) {
    all += job.cost;
    ended += job.state == Job::State::failed ? job.cost : job.cost * job.progress;
    if (job.reused) reused += job.cost;
  }
  const double worked = ended - reused;
  const std::string eta =
      worked > 0.01 * (all - reused) ? duration(seconds_since(begun_) * (all - ended) / worked) : "?";
  std::string text =
      fmt::format("[{}/{}] ETA {}", count(Job::State::done) + count(Job::State::failed), jobs_.size(), eta);
  for (const auto& worker : workers_) {
    text += fmt::format(" | {}", jobs_[worker->job].folder.filename().string());
    if (worker->steps > 0) {
      text += fmt::format(" {:.0f}/{:.0f} loss {:.4g} {} tok/s", worker->step, worker->steps, worker->loss,
                          short_number(worker->tokens_per_s));
    }
  }
  display_.show(text);
}

void Scheduler::run(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    for (const Stage& stage : cell.stages) add(stage);
  }
  const CatchInterrupts catching;
  int forwarded = 0;
  while (true) {
    if (interrupts() > forwarded) {
      if (forwarded == 0)
        display_.insist("interrupted: finishing the step and saving; once more kills at once");
      for (const auto& worker : workers_) worker->process.signal(forwarded == 0 ? SIGINT : SIGKILL);
      ++forwarded;
      interrupted_ = true;
    }
    if (stop_ || interrupted_) {
      for (Job& job : jobs_) {
        if (job.state == Job::State::waiting) job.state = Job::State::stopped;
      }
    }
    for (size_t i = 0; i < jobs_.size() && static_cast<int>(workers_.size()) < options_.jobs; ++i) {
      if (jobs_[i].state != Job::State::waiting) continue;
      const Job* parent = find(jobs_[i].stage.settings.text("run.parent"));
      if (parent && parent->state != Job::State::done && parent->state != Job::State::failed) continue;
      settle(jobs_[i]);
      if (jobs_[i].state != Job::State::waiting) continue;
      if (stop_) break;
      start(i);
      jobs_[i].state = Job::State::running;
    }
    if (workers_.empty() && count(Job::State::waiting) == 0) break;

    std::vector<Process*> processes;
    for (const auto& worker : workers_) processes.push_back(&worker->process);
    Process::wait(processes, 100);
    for (size_t i = 0; i < workers_.size();) {
      read(*workers_[i]);
      if (!workers_[i]->process.finished()) {
        ++i;
        continue;
      }
      const std::unique_ptr<Worker> ended = std::move(workers_[i]);
      workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
      finish(*ended);
    }
    show();
  }
}

}  // namespace copylab
