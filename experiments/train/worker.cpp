// Worker: train, evaluate, measure, each skipped when its result is already there.
#include "experiments/train/worker.h"

#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "core/io/hdf5.h"
#include "experiments/clock.h"
#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/config/run_fields.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/evaluate/measure_run.h"
#include "experiments/measures/scored_split.h"
#include "experiments/schedule/interrupt.h"
#include "experiments/store/lock.h"
#include "experiments/store/provenance.h"
#include "experiments/store/run_writer.h"
#include "experiments/train/memory.h"
#include "experiments/train/trainer.h"

namespace copylab {
namespace fs = std::filesystem;
namespace {

constexpr int kFailed = 1, kUsage = 2, kLocked = 4, kInterrupted = 130;

// The work may stop here; everything needed to resume has been saved.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

void stop_if_asked() {
  if (interrupts() > 0) throw Interrupted();
}

// One line of progress, for whoever started the worker.
void say(const std::string& json) {
  std::fputs((json + "\n").c_str(), stdout);
  std::fflush(stdout);
}

class Worker {
 public:
  Worker(RunFolder folder, const fs::path& parent) : folder_(std::move(folder)), parent_(parent) {}

  void work() {
    settings_ = load_settings(folder_.config());
    const int64_t threads = settings_.integer("train.threads");
    if (threads > 0) omp_set_num_threads(static_cast<int>(threads));  // else OMP_NUM_THREADS, else all
    seed_ = static_cast<uint64_t>(settings_.integer("train.seed"));
    task_ = find_task(settings_.text("task.name")).make(settings_);
    plan_ = train_plan(settings_, *task_);
    const Backend& backend = backend_of(settings_);
    model_ = make_model(settings_, *task_, backend);
    const std::string problem =
        memory_problem(estimate_memory(settings_, plan_, *model_), available_memory());
    expect(problem.empty(), "memory", "{}", problem);

    Metrics fresh;
    std::ifstream config(folder_.config());
    fresh.config = {std::istreambuf_iterator<char>(config), {}};
    fresh.settings = settings_;
    fresh.run_id = run_id(settings_);
    fresh.provenance = provenance(backend.name, omp_get_max_threads());
    writer_.emplace(folder_, std::move(fresh));

    train();
    test();
    measure();
    writer_->finish();
    folder_.append_log("done");
  }

  // Keeps what there is; called when work() was left by an exception.
  void keep(const std::string& status) {
    if (writer_ && recording_) writer_->save_metrics(status);
  }

 private:
  void initialise() {
    const std::string& parent_id = settings_.text("run.parent");
    if (parent_id.empty()) {
      model_->initialise(seed_);
      return;
    }
    expect(!parent_.empty(), "run", "run.parent={}: the folder of that run is needed (--parent)", parent_id);
    const RunFolder from{parent_};
    expect(from.trained(), "run", "{}: the parent has not been trained to its end", parent_.string());
    load_checkpoint(from.checkpoint(), parent_id, model_->parameters(), nullptr);
  }

  void train() {
    model_->allocate();
    Trainer trainer(*task_, *model_, plan_, seed_);
    const auto state = writer_->resume(model_->parameters(), trainer.optimizer());
    recording_ = true;
    if (state) {
      trainer.resume_at(state->step);
      trainer.plateau() = state->plateau;
      trainer.carry() = state->carry;
      folder_.append_log(fmt::format("resumed at step {} of {}", state->step, plan_.steps));
    } else {
      initialise();
      folder_.append_log(fmt::format("started: {} parameters, {} steps of {} tokens, {} threads",
                                     model_->parameters().count(), plan_.steps, plan_.tokens_per_step(),
                                     omp_get_max_threads()));
      if (plan_.kept.count(0)) keep_weights(0);
    }
    steps(trainer);
  }

  // The weights alone, under the id of this run.
  void keep_weights(int64_t step) {
    CheckpointState state;
    state.run_id = writer_->metrics().run_id;
    state.step = step;
    save_checkpoint(folder_.kept_checkpoint(step), state, model_->parameters(), nullptr);
  }

  void steps(Trainer& trainer) {
    const int64_t eval_every = settings_.integer("eval.every");
    const double checkpoint_every = settings_.real("train.checkpoint_every");
    if (trainer.step() == 0 && eval_every > 0) validate(trainer);
    int64_t saved = trainer.step();
    double save_cost = 0;
    Clock::time_point last_save = Clock::now(), last_row = last_save, last_line = last_save;
    int64_t row_step = trainer.step(), line_step = row_step;
    const auto save = [&] {
      const Clock::time_point begin = Clock::now();
      CheckpointState state;
      state.step = trainer.step();
      state.tokens = trainer.tokens();
      state.plateau = trainer.plateau();
      state.carry = trainer.carry();
      writer_->save(state, model_->parameters(), trainer.optimizer());
      saved = trainer.step();
      last_save = Clock::now();
      save_cost = seconds_since(begin);
    };
    const auto rate = [&](int64_t since, Clock::time_point begin) {
      return static_cast<double>((trainer.step() - since) * plan_.tokens_per_step()) /
             std::max(1e-9, seconds_since(begin));
    };

    while (!trainer.finished()) {
      if (interrupts() > 0 && saved != trainer.step()) save();
      stop_if_asked();
      Trainer::Update update;
      try {
        update = trainer.update();
      } catch (const NonFiniteError& error) {
        // The weights are still those of the last good update: worth keeping for a look at what happened.
        if (saved != trainer.step()) save();
        throw NonFiniteError(error.op(),
                             fmt::format("{}; checkpoint.h5 holds step {}", error.what(), trainer.step()));
      }
      if (plan_.kept.count(trainer.step())) keep_weights(trainer.step());
      if (trainer.step() % plan_.log_every == 0 || trainer.finished()) {
        writer_->log(TrainRow{trainer.step(), trainer.tokens(), update.loss, update.lr, update.grad_norm,
                              rate(row_step, last_row)});
        last_row = Clock::now();
        row_step = trainer.step();
      }
      if (seconds_since(last_line) > 0.2 || trainer.finished()) {
        say(fmt::format(R"({{"phase":"train","step":{},"steps":{},"loss":{:.6g},"tokens_per_s":{:.0f}}})",
                        trainer.step(), plan_.steps, update.loss, rate(line_step, last_line)));
        last_line = Clock::now();
        line_step = trainer.step();
      }
      if ((eval_every > 0 && trainer.step() % eval_every == 0) || trainer.finished()) validate(trainer);
      // Writing takes at most a twentieth of the time, except where every step was asked for.
      if (trainer.finished() || checkpoint_every == 0 ||
          seconds_since(last_save) > std::max(checkpoint_every, 20 * save_cost))
        save();
    }
  }

  void validate(Trainer& trainer) {
    const Evaluation e = evaluate(*model_, *task_, Split::valid, seed_, settings_.integer("eval.sequences"),
                                  settings_.integer("eval.batch"));
    writer_->log(ValidRow{trainer.step(), trainer.tokens(), e.loss(), e.accuracy()});
    if (plan_.schedule.kind == optim::Schedule::Kind::plateau) trainer.plateau().report(e.loss());
  }

  void test() {
    auto& results = writer_->metrics().results;
    if (results.count("test")) return;
    say(fmt::format(R"({{"phase":"test","step":{0},"steps":{0}}})", plan_.steps));
    const Evaluation e =
        evaluate(*model_, *task_, Split::test, seed_, settings_.integer("eval.test_sequences"),
                 settings_.integer("eval.batch"), stop_if_asked);
    results["test"] = {describe(e, *task_, plan_.steps * plan_.sequences_per_step()), ""};
  }

  void measure() {
    SplitCache scored;
    for (const std::string& name : measure_names(settings_.text("run.measures"))) {
      auto& results = writer_->metrics().results;
      const std::string asked = measure_settings(settings_, name);
      if (results.count(name) && results[name].settings == asked) continue;
      stop_if_asked();
      say(fmt::format(R"({{"phase":"{0}","step":{1},"steps":{1}}})", name, plan_.steps));
      if (!initial_ && plan_.steps > 0)  // else the model is the initial one
        initial_ = initial_model(settings_, *task_, model_->parameters().backend(), folder_.path, parent_);
      scored.used = false;
      results[name] = {run_measure(name, settings_, *task_, *model_, initial_.get(), folder_, &scored),
                       asked};
      if (!scored.used) scored.splits.clear();  // large; measures that share them stand together
      writer_->save_metrics("trained");
    }
  }

  RunFolder folder_;
  fs::path parent_;
  Settings settings_;
  uint64_t seed_ = 0;
  std::unique_ptr<Task> task_;
  TrainPlan plan_;
  std::unique_ptr<nn::Model> model_, initial_;
  std::optional<RunWriter> writer_;
  bool recording_ = false;  // the writer holds this run's rows
};

}  // namespace

int run_worker(const fs::path& run, const fs::path& parent) {
  const CatchInterrupts catching;
  const RunFolder folder{run};
  std::optional<RunLock> lock;
  try {
    lock.emplace(run);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return dynamic_cast<const LockedError*>(&error) ? kLocked : kFailed;
  }
  Worker worker(folder, parent);
  // The disk may be what failed, so that even the record of the failure cannot be written.
  const auto record = [&](const std::string& status, bool failed) {
    folder.append_log(status);
    try {
      if (failed) h5::write_text(folder.failed(), status + "\n");
      worker.keep(failed ? "failed: " + status : status);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  };
  try {
    if (is_done(run)) return 0;
    fs::remove(folder.failed());
    worker.work();
    return 0;
  } catch (const Interrupted& interrupted) {
    record(interrupted.what(), false);
    return kInterrupted;
  } catch (const ConfigError& error) {
    record(error.what(), true);
    std::fprintf(stderr, "%s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    record(error.what(), true);
    std::fprintf(stderr, "%s\n", error.what());
    return kFailed;
  }
}

}  // namespace copylab
