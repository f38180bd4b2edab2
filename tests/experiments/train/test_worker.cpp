// The worker: whole runs in processes of their own, killed, interrupted, crowded, starved, and resumed.
#include "experiments/train/worker.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <sstream>

#include "core/io/hdf5.h"
#include "core/io/temporary.h"
#include "experiments/check/check_resume.h"
#include "experiments/check/check_settings.h"
#include "experiments/config/resolve.h"
#include "experiments/evaluate/eval_tokens.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/schedule/process.h"
#include "experiments/store/checkpoint.h"
#include "experiments/store/metrics.h"
#include "experiments/store/run_folder.h"
#include "tests/catch.h"
#include "tests/experiments/worker_process.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::contains;
using copylab::testing::Ended;
using copylab::testing::new_run;
using copylab::testing::work;
namespace fs = std::filesystem;

TEST_CASE("Worker: trains, tests, and is done", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path run = new_run(folder, "run", {"train.steps=40", "train.keep_ends=true"});
  REQUIRE(run_state(run) == RunState::partial);
  const Ended first = work(run);
  CAPTURE(first.error);
  REQUIRE(first.exit_code == 0);
  REQUIRE(contains(first.out, R"({"phase":"train","step":40,"steps":40,)"));
  REQUIRE(run_state(run) == RunState::done);
  REQUIRE_FALSE(fs::exists(run / "journal.bin"));
  REQUIRE_FALSE(fs::exists(run / "lock"));
  const Metrics metrics = read_metrics(run / "metrics.h5");
  REQUIRE(metrics.status == "done");
  REQUIRE(metrics.train.size() == 40);
  REQUIRE(metrics.valid.size() == 3);  // steps 0, 25 and 40
  REQUIRE(metrics.valid.back().step == 40);
  REQUIRE(read_metric(run, "test/accuracy").has_value());
  REQUIRE(*read_metric(run, "test/chance") == 1.0 / 64);
  REQUIRE(read_checkpoint_state(run / "checkpoint-0.h5").step == 0);
  REQUIRE(read_checkpoint_state(run / "checkpoint-40.h5").step == 40);

  const auto written = fs::last_write_time(run / "checkpoint.h5");
  const auto recorded = fs::last_write_time(run / "metrics.h5");
  REQUIRE(work(run).exit_code == 0);  // nothing to do
  REQUIRE(fs::last_write_time(run / "checkpoint.h5") == written);
  REQUIRE(fs::last_write_time(run / "metrics.h5") == recorded);

  // A DONE that does not fit is made anew, without training.
  std::ofstream(run / "DONE") << "nonsense\n";
  REQUIRE(run_state(run) == RunState::partial);
  REQUIRE(work(run).exit_code == 0);
  REQUIRE(run_state(run) == RunState::done);
  REQUIRE(fs::last_write_time(run / "checkpoint.h5") == written);
}

TEST_CASE("Worker: metrics.h5 opens at every moment of a run, and its rows only grow", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path run = new_run(folder, "run", {"train.checkpoint_every=0"});
  size_t rows = 0;
  int reads = 0;
  const Ended ended = work(run, {}, [&](const Process&) {
    if (!fs::exists(run / "metrics.h5")) return;
    const Metrics metrics = read_metrics(run / "metrics.h5");
    REQUIRE(metrics.train.size() >= rows);
    rows = metrics.train.size();
    for (size_t i = 0; i < rows; ++i) REQUIRE(metrics.train[i].step == static_cast<int64_t>(i) + 1);
    ++reads;
  });
  REQUIRE(ended.exit_code == 0);
  REQUIRE(reads > 10);
  REQUIRE(read_metrics(run / "metrics.h5").train.size() == 200);
}

TEST_CASE("Worker: killed at random moments, the run ends in the same bits", "[worker]") {
  std::ostringstream out;
  const int result = check_resume({this_program(), "worker"}, 4, out);
  CAPTURE(out.str());
  REQUIRE(result == 0);
}

TEST_CASE("Worker: what a killed process was writing is cleaned up by the next", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path run = new_run(folder, "run", {"train.steps=5"});
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const auto left = [&](const std::string& name, pid_t process) {
    const fs::path file = run / fmt::format(".{}.tmp-{}-{}", name, host_name(), process);
    std::ofstream(file) << "half";
    return file;
  };
  const std::vector<fs::path> dead = {left("checkpoint-3.h5", gone), left("config.yaml", gone),
                                      left("lock", gone)};
  const fs::path living = left("metrics.h5", getpid());
  REQUIRE(work(run).exit_code == 0);
  for (const fs::path& file : dead) CHECK_FALSE(fs::exists(file));
  CHECK(fs::exists(living));
}

TEST_CASE("Worker: SIGTERM saves and ends resumable", "[worker]") {
  testing::TemporaryFolder folder;
  // No checkpoint would be due for hours.
  const std::vector<std::string> changes = {"train.steps=400", "train.checkpoint_every=10000"};
  const fs::path run = new_run(folder, "run", changes), whole = new_run(folder, "whole", changes);
  const Ended ended = work(run, {}, [&](const Process& process) {
    if (fs::exists(run / "journal.bin") && fs::file_size(run / "journal.bin") > 1000) process.signal(SIGTERM);
  });
  REQUIRE(ended.exit_code == 130);
  const Metrics metrics = read_metrics(run / "metrics.h5");
  REQUIRE(metrics.status == "interrupted");
  REQUIRE(static_cast<int64_t>(metrics.train.size()) == read_checkpoint_state(run / "checkpoint.h5").step);
  REQUIRE(run_state(run) == RunState::partial);
  REQUIRE(work(run).exit_code == 0);
  REQUIRE(work(whole).exit_code == 0);
  REQUIRE(difference_of_runs(run, whole).empty());
  REQUIRE(read_metrics(run / "metrics.h5").resumes.size() == 1);
}

TEST_CASE("Worker: of eight that start at once, one trains", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path run = new_run(folder, "run", {"train.steps=300"});
  std::vector<std::unique_ptr<Process>> all;
  for (int i = 0; i < 8; ++i)
    all.push_back(
        std::make_unique<Process>(std::vector<std::string>{this_program(), "worker", run.string()}));
  int done = 0, refused = 0;
  for (const auto& process : all) {
    std::string error;
    while (!process->finished()) {
      process->read([&](const std::string& line, bool is_error) {
        if (is_error) error = line;
      });
      Process::wait({process.get()}, 5);
    }
    if (process->exit_code() == 4) {
      ++refused;
      REQUIRE(contains(error, "in use by process"));
    }
    done += process->exit_code() == 0;
  }
  // One that started after the others had ended would find the run done.
  REQUIRE(done >= 1);
  REQUIRE(done + refused == 8);
  REQUIRE(read_metrics(run / "metrics.h5").resumes.empty());
  REQUIRE(run_state(run) == RunState::done);
}

TEST_CASE("Worker: a run that diverges fails with step and op, and keeps its last good weights", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path run =
      new_run(folder, "run",
              {"train.optimizer=sgd", "train.lr=1e6", "train.clip=0", "train.warmup=0", "head.kind=vanilla"});
  const Ended ended = work(run);
  REQUIRE(ended.exit_code == 1);
  CAPTURE(ended.error);
  REQUIRE(ended.error.rfind("step ", 0) == 0);
  REQUIRE(contains(ended.error, "NaN or Inf in the "));
  REQUIRE(contains(ended.error, "checkpoint.h5 holds step "));
  REQUIRE(run_state(run) == RunState::failed);
  REQUIRE(RunFolder{run}.failure() == ended.error);
  const Metrics metrics = read_metrics(run / "metrics.h5");
  REQUIRE(metrics.status == "failed: " + ended.error);
  REQUIRE(static_cast<int64_t>(metrics.train.size()) == read_checkpoint_state(run / "checkpoint.h5").step);
}

TEST_CASE("Worker: a stage starts from its parent's weights", "[worker]") {
  testing::TemporaryFolder folder;
  const Settings first = check_settings({"train.steps=20"});
  const fs::path parent = new_run(folder, "parent", {"train.steps=20"});
  REQUIRE(work(parent).exit_code == 0);
  const std::vector<std::string> changes = {"run.parent=" + run_id(first), "train.steps=5", "train.lr=0",
                                            "train.weight_decay=0", "train.keep_ends=true"};
  const fs::path child = new_run(folder, "child", changes);
  const Ended without = work(child);
  REQUIRE(without.exit_code == 1);
  REQUIRE(contains(without.error, "--parent"));
  const Ended with = work(child, {"--parent", parent.string()});
  CAPTURE(with.error);
  REQUIRE(with.exit_code == 0);
  const h5::File a = h5::File::open(parent / "checkpoint.h5"), b = h5::File::open(child / "checkpoint.h5");
  for (const std::string& name : a.list("params"))
    REQUIRE(a.read<float>("params/" + name).values == b.read<float>("params/" + name).values);

  const fs::path stranger = new_run(folder, "stranger", {"run.parent=ffffffff", "train.steps=5"});
  REQUIRE(contains(work(stranger, {"--parent", parent.string()}).error, "expected one of run ffffffff"));
}

TEST_CASE("Worker: a stage may read longer sequences than its parent", "[worker]") {
  testing::TemporaryFolder folder;
  const auto stage = [&](const std::string& name, std::vector<std::string> base,
                         std::vector<std::string> more) {
    for (std::vector<std::string>* one : {&base, &more}) one->push_back("train.steps=3");
    const fs::path parent = new_run(folder, name + "-parent", base);
    REQUIRE(work(parent).exit_code == 0);
    more.push_back("run.parent=" + run_id(check_settings(base)));
    more.push_back("task.length=64");
    return work(new_run(folder, name, more), {"--parent", parent.string()});
  };
  const Ended yarn = stage("yarn", {}, {"model.yarn.scale=4", "model.yarn.original_length=16"});
  CAPTURE(yarn.error);
  CHECK(yarn.exit_code == 0);
  const std::string learned = "model.positions=learned", enough = "model.max_positions=64";
  CHECK(stage("learned", {learned, enough}, {learned, enough}).exit_code == 0);
  const Ended short_table = stage("short", {learned}, {learned});
  CHECK(short_table.exit_code == 1);
  CHECK(contains(short_table.error, "pos_embed.weight does not have shape (64, 16)"));
}

TEST_CASE("Worker: a checkpoint of another config or a damaged one is refused and kept", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path other = new_run(folder, "other", {"train.steps=5", "train.seed=2"});
  REQUIRE(work(other).exit_code == 0);
  const fs::path run = new_run(folder, "run", {"train.steps=5"});
  fs::copy_file(other / "checkpoint.h5", run / "checkpoint.h5");
  const auto size = fs::file_size(run / "checkpoint.h5");
  Ended ended = work(run);
  REQUIRE(ended.exit_code == 1);
  CAPTURE(ended.error);
  REQUIRE(contains(ended.error, "expected one of run"));
  REQUIRE(fs::file_size(run / "checkpoint.h5") == size);
  fs::resize_file(run / "checkpoint.h5", size / 2);
  ended = work(run);
  REQUIRE(ended.exit_code == 1);
  REQUIRE(contains(ended.error, "truncated or damaged"));
  REQUIRE(fs::file_size(run / "checkpoint.h5") == size / 2);
  std::ofstream(run / "config.yaml") << "task: {name: spamlang, vocabulary: 3}\n";
  REQUIRE(work(run).exit_code == 2);
}

// Two processes: the limit on file sizes is inherited, and stands for a full disk.
TEST_CASE("Worker: a full disk is one clear line, and the old files stay", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path run = new_run(folder, "run", {"train.steps=60", "train.checkpoint_every=0"});
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 16 << 10;
  setrlimit(RLIMIT_FSIZE, &small);
  const Ended ended = work(run);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  CAPTURE(ended.error);
  REQUIRE(ended.exit_code == 1);
  REQUIRE(contains(ended.error, "cannot be written"));
  REQUIRE(contains(ended.error, "MiB free"));
  if (fs::exists(run / "metrics.h5")) REQUIRE_NOTHROW(read_metrics(run / "metrics.h5"));
  REQUIRE(work(run).exit_code == 0);
}

TEST_CASE("Eval: losses per position of a user's tokens", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path run = new_run(folder, "run", {"train.steps=30"});
  REQUIRE(work(run).exit_code == 0);
  h5::write_file(folder / "tokens.h5", [](h5::File& file) {
    std::vector<int64_t> tokens(2 * 10);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = i < 10 ? 7 : 9;
    file.write<int64_t>("tokens", tokens, {2, 10});
  });
  eval_tokens(run, folder / "tokens.h5", folder / "out.h5");
  const h5::File out = h5::File::open(folder / "out.h5");
  for (const char* name : {"nll", "no_copy_nll", "force_copy_nll", "gate", "sink"}) {
    const auto values = out.read<double>(name);
    REQUIRE(values.shape == h5::Extent{2, 10});
    for (int64_t t = 0; t < 9; ++t) REQUIRE(std::isfinite(values.values[t]));
    REQUIRE(std::isnan(values.values[9]));  // the last position has no next token
  }
  REQUIRE(out.read<int32_t>("force_copy_argmax").values[3] == 7);
  h5::write_file(folder / "bad.h5", [](h5::File& file) {
    file.write<int64_t>("tokens", std::vector<int64_t>{1, 64}, {1, 2});
  });
  REQUIRE_THROWS_WITH(eval_tokens(run, folder / "bad.h5", folder / "x.h5"),
                      Catch::Matchers::Contains("tokens holds 64, outside of the vocabulary of 64"));
}

TEST_CASE("Worker: a run of no updates measures the initial weights", "[worker]") {
  testing::TemporaryFolder folder;
  const fs::path run = new_run(folder, "run", {"train.steps=0", "run.measures=head_gradient"});
  const Ended ended = work(run);
  CAPTURE(ended.error);
  REQUIRE(ended.exit_code == 0);
  REQUIRE(run_state(run) == RunState::done);
  REQUIRE_FALSE(fs::exists(run / "checkpoint.h5"));
  REQUIRE(read_metrics(run / "metrics.h5").train.empty());
  // The model is the same as one that trains starts from.
  const fs::path trained = new_run(folder, "trained", {"train.steps=2", "run.measures=head_gradient"});
  REQUIRE(work(trained).exit_code == 0);
  REQUIRE(*read_metric(run, "head_gradient/r") == *read_metric(trained, "head_gradient/initial_r"));
  REQUIRE(*read_metric(run, "head_gradient/r") != *read_metric(trained, "head_gradient/r"));
  REQUIRE(load_run(run).step == 0);
}
