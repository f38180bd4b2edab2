// Scheduler: runs stages in worker processes, a few at a time, each in its own folder; one failure stays one.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/config/expand.h"
#include "experiments/schedule/display.h"
#include "experiments/schedule/process.h"
#include "experiments/schedule/run_index.h"

namespace copylab {

struct ScheduleOptions {
  std::filesystem::path root = "results";
  int jobs = 0;                     // processes at a time; 0 = one per processor
  int processors = 1;               // to divide among them
  std::string command;              // line that the user typed, kept in new runs
  bool fail_fast = false;           // stop after the first failure
  std::vector<std::string> worker;  // command; the run's folder and "--parent FOLDER" are appended
};

// A stage on its way.
struct Job {
  enum class State { waiting, running, done, failed, stopped };

  Stage stage;
  std::filesystem::path folder;
  State state = State::waiting;
  bool reused = false;  // was done before this command
  std::string reason;   // of a failure
  double cost = 1;      // relative expected time
  double progress = 0;  // 0..1
  double seconds = 0;
};

class Scheduler {
 public:
  Scheduler(ScheduleOptions options, Display& display);
  ~Scheduler();

  // Called whenever a job has ended.
  void set_on_change(std::function<void()> on_change) { on_change_ = std::move(on_change); }
  // Expected relative time of a stage, for the ETA. Default: all equal.
  void set_cost(std::function<double(const Stage&)> cost) { cost_ = std::move(cost); }

  // Adds the stages of cells that are not known yet and works until all have ended, or until an interrupt or,
  // with fail_fast, a failure. Equal ids are one job. May be called again with more cells.
  void run(const std::vector<Cell>& cells);

  const Job* find(const std::string& id) const;
  const std::vector<Job>& jobs() const { return jobs_; }
  bool interrupted() const { return interrupted_; }
  bool stopped() const { return interrupted_ || stop_; }  // before all jobs were started
  int count(Job::State state) const;
  int reused() const;

 private:
  struct Worker;

  void add(const Stage& stage);
  void settle(Job& job);  // done before, or impossible: without a process
  void start(size_t job);
  void read(Worker& worker);
  void finish(Worker& worker);
  void fail(Job& job, const std::string& reason);
  void report(const Job& job);
  void show();
  std::filesystem::path parent_folder(const Job& job) const;

  ScheduleOptions options_;
  Display& display_;
  std::function<void()> on_change_;
  std::function<double(const Stage&)> cost_;
  RunIndex index_;
  std::vector<Job> jobs_;
  std::map<std::string, size_t> by_id_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::chrono::steady_clock::time_point begun_;
  bool interrupted_ = false;
  bool stop_ = false;
};

}  // namespace copylab
