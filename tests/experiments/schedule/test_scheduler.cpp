// The scheduler with a stand-in for the worker: failures stay apart, done work is not repeated, stages are
// shared.
#include "experiments/schedule/scheduler.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/io/hdf5.h"
#include "experiments/schedule/sweep.h"
#include "experiments/schedule/sweep_file.h"
#include "experiments/store/run_folder.h"
#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::contains;
using namespace copylab::testing;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A results folder and a shell script that stands in for the worker: it copies a finished run's files, or
// does what the vocabulary tells it: 13 fails with a message, 14 is killed, 15 interrupts the scheduler.
class Bench {
 public:
  Bench() {
    const RunFolder finished{folder_.path() / "finished"};
    fs::create_directories(finished.path);
    h5::write_file(finished.metrics(), [](h5::File& file) {
      file.make_group("eval/test");
      file.write_scalar("eval/test/loss", 0.25);
    });
    finished.write_done();
    const std::string home = folder_.path().string();
    script_ = folder_.write("worker.sh", "cd " + home + "\n" + R"(
echo "$@" >> calls
echo "threads $OMP_NUM_THREADS" >> calls
if grep -q 'vocab: 13$' "$1/config.yaml"; then echo first; echo 'no luck' >&2; exit 1; fi
if grep -q 'vocab: 14$' "$1/config.yaml"; then kill -9 $$; fi
if grep -q 'vocab: 15$' "$1/config.yaml"; then
  trap 'exit 130' INT
  kill -INT $PPID
  for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; done
  exit 7
fi
echo '{"step":1,"steps":2,"loss":1.5,"tokens_per_s":100}'
cp finished/metrics.h5 finished/DONE "$1"
)");
  }

  fs::path root() const { return folder_.path() / "results"; }
  std::string calls() const { return text_of(folder_.path() / "calls"); }
  int call_count() const {
    const std::string text = calls();
    return static_cast<int>(std::count(text.begin(), text.end(), '\n')) / 2;
  }
  ScheduleOptions options(int jobs = 1) const {
    ScheduleOptions options;
    options.root = root();
    options.jobs = jobs;
    options.processors = 4;
    options.worker = {"/bin/sh", script_.string()};
    return options;
  }
  Expansion expand(const std::string& body, const std::string& name = "demo") const {
    const fs::path file = folder_.write("x.yaml", "name: " + name + "\nbase: {task.name: spamlang}\n" + body);
    return Expansion(Catalogue::installed(), load_experiment(file));
  }

 private:
  TemporaryFolder folder_;
  fs::path script_;
};

// A display that writes into memory.
class Screen {
 public:
  explicit Screen(Display::Mode mode = Display::Mode::normal) : file_(std::tmpfile()), display(mode, file_) {}
  ~Screen() { std::fclose(file_); }
  std::string text() const {
    std::string out;
    std::rewind(file_);
    for (int c; (c = std::fgetc(file_)) != EOF;) out += static_cast<char>(c);
    return out;
  }

 private:
  std::FILE* file_;

 public:
  Display display;
};

}  // namespace

TEST_CASE("One failure stays one, is told at once, and only failures are repeated", "[scheduler]") {
  const Bench stage;
  const Expansion expansion = stage.expand("grid: {task.vocab: [11, 13, 14, 12]}\n");
  {
    Screen screen;
    Scheduler scheduler(stage.options(), screen.display);
    const SweepResult result = run_sweep(expansion, scheduler, stage.root(), "copylab run demo");
    print_summary(scheduler, screen.display);
    CHECK(result.failed == 2);
    CHECK(scheduler.count(Job::State::done) == 2);
    CHECK(exit_code(scheduler) == 1);
    CHECK(stage.call_count() == 4);
    const std::string text = screen.text();
    INFO(text);
    CHECK(text.find("FAILED base-vocab13-s1-") < text.find("done base-vocab12-s1-"));
    CHECK(contains(text, ": no luck\n"));
    CHECK(contains(text, "killed by signal 9"));
    CHECK(contains(text, "4 runs: 2 done, 2 failed"));
    CHECK(contains(text, "test/loss 0.25"));
    const RunFolder killed{stage.root() / expansion.first()[2].result().folder};
    CHECK(contains(killed.failure(), "killed by signal 9"));
    const Sweep sweep = read_sweep(stage.root() / "demo" / "sweep-full.h5");
    REQUIRE(sweep.rows.size() == 4);
    CHECK(sweep.command == "copylab run demo");
    CHECK(sweep.preset == "full");
    CHECK(sweep.rows[0].status == "done");
    CHECK(sweep.rows[1].status == "failed");
    CHECK((sweep.rows[0].best && sweep.rows[0].same && !sweep.rows[0].tune));
    CHECK(stage.root() / "demo" / sweep.rows[0].run == stage.root() / expansion.first()[0].result().folder);
    CHECK(contains(text_of(stage.root() / "demo" / "sweep-full.yaml"), "# copylab run demo\nname: demo\n"));
  }
  Screen screen;
  Scheduler scheduler(stage.options(), screen.display);
  run_sweep(expansion, scheduler, stage.root(), "again");
  CHECK(stage.call_count() == 4 + 2);
  CHECK(scheduler.reused() == 2);
  CHECK(contains(screen.text(), "done before base-vocab11-s1-"));
}

TEST_CASE("A run whose files were changed is not done", "[scheduler]") {
  const Bench stage;
  const Expansion expansion = stage.expand("grid: {task.vocab: [11]}\n");
  Screen screen;
  Scheduler(stage.options(), screen.display).run(expansion.first());
  const RunFolder folder{stage.root() / expansion.first()[0].result().folder};
  CHECK(is_done(folder.path));
  fs::resize_file(folder.metrics(), fs::file_size(folder.metrics()) - 1);
  Scheduler again(stage.options(), screen.display);
  again.run(expansion.first());
  CHECK(again.reused() == 0);
  CHECK(stage.call_count() == 2);
  CHECK(is_done(folder.path));
}

TEST_CASE("--fail-fast starts nothing more", "[scheduler]") {
  const Bench stage;
  Screen screen;
  ScheduleOptions options = stage.options();
  options.fail_fast = true;
  Scheduler scheduler(options, screen.display);
  run_sweep(stage.expand("grid: {task.vocab: [13, 11, 12]}\n"), scheduler, stage.root(), "");
  CHECK(stage.call_count() == 1);
  CHECK(scheduler.count(Job::State::stopped) == 2);
  CHECK(exit_code(scheduler) == 1);
}

TEST_CASE("Equal runs are one job, and one of another experiment is used again", "[scheduler]") {
  const Bench stage;
  Screen screen;
  Scheduler scheduler(stage.options(2), screen.display);
  scheduler.run(
      stage.expand("arms_vary: [task.vocab]\narms: {a: {task.vocab: 11}, b: {task.vocab: 11}}\n").first());
  CHECK(scheduler.jobs().size() == 1);
  Scheduler other(stage.options(2), screen.display);
  const Expansion expansion = stage.expand("grid: {task.vocab: [11, 12]}\n", "other");
  run_sweep(expansion, other, stage.root(), "");
  CHECK(stage.call_count() == 2);
  CHECK(other.reused() == 1);
  CHECK(contains(screen.text(), "in " + (stage.root() / "demo").string()));
  const Sweep sweep = read_sweep(stage.root() / "other" / "sweep-full.h5");
  CHECK(sweep.rows[0].run.starts_with("a-s1-"));
  CHECK(sweep.rows[0].status == "done");
}

TEST_CASE("Stages run once, in order, and fail with the stage before", "[scheduler]") {
  const Bench stage;
  Screen screen;
  const std::string stages = R"(
arms_vary: [train.lr]
arms: {a: {train.lr: 0.1}, b: {train.lr: 0.2}}
stages: [{name: one, set: {train.lr: 0.5, task.vocab: VOCAB}}, {name: two}]
)";
  const auto with = [&](const std::string& vocab) {
    std::string text = stages;
    return stage.expand(text.replace(text.find("VOCAB"), 5, vocab));
  };
  const Expansion good = with("11");
  Scheduler scheduler(stage.options(4), screen.display);
  scheduler.run(good.first());
  CHECK(scheduler.jobs().size() == 3);
  CHECK(scheduler.count(Job::State::done) == 3);
  const std::string first = (stage.root() / good.first()[0].stages[0].folder).string();
  CHECK(stage.calls().starts_with(first + "\n"));
  CHECK(contains(stage.calls(), "--parent " + first));

  Scheduler bad(stage.options(4), screen.display);
  bad.run(with("13").first());
  CHECK(bad.count(Job::State::failed) == 3);
  CHECK(stage.call_count() == 3 + 1);
  CHECK(contains(screen.text(), "the stage before it failed (a-s1-one-"));
}

TEST_CASE("Threads are divided among the processes that run together", "[scheduler]") {
  const Bench stage;
  Screen screen;
  Scheduler(stage.options(2), screen.display).run(stage.expand("grid: {task.vocab: [11, 12]}\n").first());
  CHECK(contains(stage.calls(), "threads 2\n"));
  Scheduler(stage.options(2), screen.display).run(stage.expand("grid: {task.vocab: [16]}\n").first());
  CHECK(stage.calls().ends_with("threads 4\n"));
}

TEST_CASE("The program sees to it that idle threads spin shortly, unless the user has said how",
          "[scheduler]") {
  const auto spin_of = [](const std::vector<std::string>& environment) {
    std::vector<std::string> command = {"/usr/bin/env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {this_program(), "variable", "GOMP_SPINCOUNT"});
    Process process(command);
    std::string text;
    const auto collect = [&](const std::string& line, bool) { text += line; };
    while (!process.finished()) {
      process.read(collect);
      Process::wait({&process}, 10);
    }
    process.read(collect);
    return text;
  };
  CHECK(spin_of({}) == "10000");
  CHECK(spin_of({"GOMP_SPINCOUNT=7"}) == "7");
  CHECK(spin_of({"OMP_WAIT_POLICY=active"}) == "unset");
}

TEST_CASE("A finished run says that it cannot gain checkpoints", "[scheduler]") {
  const Bench stage;
  const auto run = [&](const std::string& changes) {
    Screen screen;
    const auto expansion =
        stage.expand("measures: [head_gradient]\npresets: {quick: {base: {" + changes + "}}}\n");
    Scheduler(stage.options(1), screen.display).run(expansion.first());
    return screen.text();
  };
  const std::string over = "measure.head_gradient.over_training: true",
                    told = "a finished run gains no checkpoints";
  CHECK_FALSE(contains(run("train.keep: 2, " + over), told));  // it trains
  CHECK_FALSE(contains(run("train.keep: 2, " + over), told));
  CHECK_FALSE(contains(run("train.keep: 8"), told));  // no measure needs them
  const std::string text = run("train.keep: 8, " + over);
  CHECK(contains(text, "trained with train.keep=2"));
  CHECK(text.find(told) == text.rfind(told));
}

TEST_CASE("An interrupt reaches the workers and ends with 130; the rest stays to be done", "[scheduler]") {
  const Bench stage;
  Screen screen;
  Scheduler scheduler(stage.options(), screen.display);
  run_sweep(stage.expand("grid: {task.vocab: [11, 15, 12]}\n"), scheduler, stage.root(), "");
  print_summary(scheduler, screen.display);
  CHECK(scheduler.interrupted());
  CHECK(exit_code(scheduler) == 130);
  CHECK(scheduler.count(Job::State::done) == 1);
  CHECK(scheduler.count(Job::State::stopped) == 2);
  CHECK(contains(screen.text(), "2 left; the same command goes on from here"));
  CHECK(read_sweep(stage.root() / "demo" / "sweep-full.h5").rows[2].status == "missing");
}

TEST_CASE("A selection runs in two phases", "[scheduler]") {
  const Bench stage;
  Screen screen;
  Scheduler scheduler(stage.options(2), screen.display);
  const Expansion expansion = stage.expand(R"(
arms_vary: [train.batch]
arms: {a: {}, b: {train.batch: 4}}
grid: {task.vocab: [11, 12], train.lr: [0.1, 0.2]}
seeds: 2
select: {over: train.lr, by: test/loss, seeds: [1001], same: a}
)");
  const SweepResult result = run_sweep(expansion, scheduler, stage.root(), "");
  CHECK(result.cells.size() == 8 + 2 * 2 * 2);  // equal losses: the first rate is best for both arms
  const Sweep sweep = read_sweep(stage.root() / "demo" / "sweep-full.h5");
  CHECK(std::count_if(sweep.rows.begin(), sweep.rows.end(), [](const SweepRow& r) { return r.tune; }) == 8);
  CHECK(std::count_if(sweep.rows.begin(), sweep.rows.end(),
                      [](const SweepRow& r) { return r.best && r.same; }) == 8);
  const h5::File file = h5::File::open(stage.root() / "demo" / "sweep-full.h5");
  CHECK(file.read<double>("cells/train.lr").values.size() == 16);
  CHECK(file.read<int64_t>("cells/task.vocab").values.back() == 12);
  CHECK(file.attribute_as<std::string>("/", "select_over") == "train.lr");
}

TEST_CASE("JSON output is one object a line", "[scheduler]") {
  const Bench stage;
  Screen screen(Display::Mode::json);
  Scheduler scheduler(stage.options(), screen.display);
  scheduler.run(stage.expand("grid: {task.vocab: [11, 13]}\n").first());
  print_summary(scheduler, screen.display);
  std::istringstream lines(screen.text());
  int n = 0;
  for (std::string line; std::getline(lines, line); ++n) {
    CHECK(line.front() == '{');
    CHECK(line.back() == '}');
  }
  CHECK(n >= 3);
  CHECK(contains(screen.text(), R"("status":"failed","reused":false,"reason":"no luck")"));
  CHECK(json_number(R"({"a": 3,"b":-1.5e3})", "b") == -1500);
  CHECK(json_line({{"a", std::string("x\"\n")}, {"b", true}}) == R"({"a":"x\"\u000a","b":true})");
}

TEST_CASE("Durations and numbers for people", "[scheduler]") {
  CHECK(duration(1.25) == "1.2 s");
  CHECK(duration(65) == "1m 05s");
  CHECK(duration(3725) == "1h 02m");
  CHECK(short_number(81234) == "81.2k");
  CHECK(short_number(3.4e6) == "3.4M");
}
