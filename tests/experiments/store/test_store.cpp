// The run store: journal, metrics file, checkpoint, lock, states of a run's folder.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

#include "core/backend.h"
#include "experiments/store/checkpoint.h"
#include "experiments/store/lock.h"
#include "experiments/store/metrics.h"
#include "experiments/store/provenance.h"
#include "experiments/store/run_folder.h"
#include "experiments/store/run_writer.h"
#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::contains;
using copylab::testing::message_of;
namespace fs = std::filesystem;

namespace {

TrainRow train_row(int64_t step) {
  const double x = static_cast<double>(step);
  return {step, 64 * step, 3.0 / x, 1e-3, 0.5 * x, 1000 + x};
}

Metrics example_metrics() {
  Metrics m;
  m.config = "task:\n  name: spamlang\n";
  m.settings.set("task.name", std::string("spamlang"));
  m.settings.set("task.vocab", int64_t{64});
  m.settings.set("model.tied", true);
  m.settings.set("train.lr", 1e-3);
  m.settings.set("model.kinds", std::vector<int64_t>{1, 2});
  m.run_id = "0123abcd";
  m.provenance = provenance("cpu", 2);
  for (int64_t step = 1; step <= 10; ++step) m.train.push_back(train_row(step));
  m.valid = {{0, 0, 4.0, 0.0}, {10, 640, 0.5, 0.875}};
  m.resumes = {"step 3 at 2026-01-01T00:00:00Z"};
  MeasureOutput test;
  test.scalar("accuracy", 0.75, "share");
  test.label("slice", {"near", "far"});
  test.array("accuracy_by_slice", {1.0, std::nan("")}, {2}, {"slice"}, "share per slice");
  test.coordinate("rank", {1, 2, 4});
  test.array("by_slice", {0.25, 0.5}, {2}, {"slice"}, "another share per slice");
  test.array("by_rank", {10, 20, 30}, {3}, {"rank"}, "a number per rank");
  test.coordinate("step", {0, 10});
  test.array("training/by_rank", {10, 20, 30, 40, 50, 60}, {2, 3}, {"step", "rank"}, "over training");
  test.array("grid", {1, 2, 3, 4, 5, 6}, {2, 3}, {"slice", "rank"}, "a table");
  m.results["test"] = {test, ""};
  m.results["other"] = {{}, "samples=3\n"};
  return m;
}

// A model's worth of parameters.
struct Weights {
  nn::Parameters parameters{cpu_backend(), DType::f32};
  std::optional<optim::Optimizer> optimizer;

  explicit Weights(int64_t rows = 3) {
    parameters.add("embed.weight", {rows, 5}, nn::Init::normal(1.0), true);
    parameters.add("norm.weight", {5}, nn::Init::constant(1.0), false);
    parameters.initialise(1);
    optimizer.emplace(parameters, optim::OptimizerOptions{});
  }
  std::vector<float> all() const {
    const float* data = static_cast<const float*>(parameters.flat_data());
    return {data, data + parameters.flat_size()};
  }
};

RunWriter writer_in(const fs::path& folder, const std::string& id = "0123abcd") {
  Metrics fresh = example_metrics();
  fresh.train.clear();
  fresh.valid.clear();
  fresh.resumes.clear();
  fresh.results.clear();
  fresh.run_id = id;
  return RunWriter(RunFolder{folder}, std::move(fresh));
}

CheckpointState at_step(int64_t step) {
  CheckpointState state;
  state.step = step;
  return state;
}

}  // namespace

TEST_CASE("Journal: rows come back, a torn last one is dropped", "[store]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "journal.bin";
  REQUIRE(Journal::read(path).train.empty());
  {
    Journal journal(path);
    for (int64_t step = 1; step <= 5; ++step) journal.append(train_row(step));
    journal.append(ValidRow{5, 320, 1.5, 0.25});
    journal.sync();
  }
  const auto size = fs::file_size(path);
  Journal::Rows rows = Journal::read(path);
  REQUIRE(rows.train.size() == 5);
  REQUIRE(rows.train[2].grad_norm == 1.5);
  REQUIRE(rows.valid.size() == 1);
  REQUIRE(rows.valid[0].accuracy == 0.25);
  REQUIRE(rows.dropped_bytes == 0);

  // Every possible tear of the last record (41 bytes), and a flipped bit in it.
  for (uintmax_t cut = 1; cut < 41; ++cut) {
    const auto torn = folder / "torn.bin";
    fs::copy_file(path, torn, fs::copy_options::overwrite_existing);
    fs::resize_file(torn, size - cut);
    rows = Journal::read(torn);
    REQUIRE(rows.train.size() == 5);
    REQUIRE(rows.valid.empty());
    REQUIRE(rows.dropped_bytes == static_cast<int64_t>(41 - cut));
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size) - 1);
    file.put('\x55');
  }
  REQUIRE(Journal::read(path).valid.empty());

  std::ofstream(folder / "foreign") << "something else entirely";
  REQUIRE(contains(message_of([&] { Journal j(folder / "foreign"); }), "not a journal"));
}

TEST_CASE("CRC-32 of the standard check string", "[store]") {
  REQUIRE(crc32("123456789", 9) == 0xCBF43926u);
}

TEST_CASE("Metrics: everything written comes back", "[store]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "metrics.h5";
  const Metrics m = example_metrics();
  write_metrics(path, m);
  const Metrics r = read_metrics(path);
  REQUIRE(r.config == m.config);
  REQUIRE(r.run_id == m.run_id);
  REQUIRE(r.status == m.status);
  REQUIRE(r.resumes == m.resumes);
  REQUIRE(r.provenance == m.provenance);
  REQUIRE(r.train.size() == 10);
  REQUIRE(r.train[9].loss == m.train[9].loss);
  REQUIRE(r.train[9].tokens == 640);
  REQUIRE(r.valid[1].accuracy == 0.875);
  REQUIRE(r.results.at("other").settings == "samples=3\n");
  const MeasureOutput& test = r.results.at("test").output;
  REQUIRE(test.arrays.at("grid").values == m.results.at("test").output.arrays.at("grid").values);
  REQUIRE(test.arrays.at("grid").dims == std::vector<std::string>{"slice", "rank"});
  REQUIRE(test.arrays.at("accuracy").shape.empty());
  REQUIRE(test.labels.at("slice") == std::vector<std::string>{"near", "far"});
  REQUIRE(test.coordinates.at("rank") == std::vector<double>{1, 2, 4});
  REQUIRE(test.arrays.at("training/by_rank").dims == std::vector<std::string>{"step", "rank"});
  REQUIRE(test.arrays.at("training/by_rank").values == std::vector<double>{10, 20, 30, 40, 50, 60});

  const h5::File file = h5::File::open(path);
  REQUIRE(file.attribute_as<int64_t>("config", "task.vocab") == 64);
  REQUIRE(file.attribute_as<bool>("config", "model.tied"));
  REQUIRE(read_metric(file, "valid/loss") == 0.5);
  REQUIRE(read_metric(file, "test/accuracy") == 0.75);
  REQUIRE(read_metric(file, "train/loss") == m.train[9].loss);
  REQUIRE(read_metric(file, "test/by_slice[far]") == 0.5);
  REQUIRE(read_metric(file, "test/by_rank[2]") == 20);
  REQUIRE_FALSE(read_metric(file, "test/by_rank").has_value());  // which of them?
  REQUIRE_FALSE(read_metric(file, "test/slice").has_value());
  REQUIRE_FALSE(read_metric(file, "test/by_rank[3]").has_value());
  REQUIRE_FALSE(read_metric(file, "test/by_rank[two]").has_value());
  REQUIRE_FALSE(read_metric(file, "test/by_rank[2").has_value());
  REQUIRE_FALSE(read_metric(file, "test/grid[far]").has_value());
  REQUIRE_FALSE(read_metric(file, "test/nothing").has_value());
  REQUIRE_FALSE(read_metric(file, "test").has_value());
}

// The README's reader. Run with the distribution's Python where it has h5py.
TEST_CASE("Metrics: five lines of h5py read the file", "[store]") {
  if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0) {
    WARN("no h5py: skipped");
    return;
  }
  testing::TemporaryFolder folder;
  write_metrics(folder / "metrics.h5", example_metrics());
  std::ofstream(folder / "read.py") << "import h5py, sys\n"
                                       "f = h5py.File(sys.argv[1])\n"
                                       "steps, loss = f['train/step'][:], f['train/loss'][:]\n"
                                       "print(f['config'].attrs['task.vocab'], f['status'][()].decode())\n"
                                       "print(steps[-1], loss[-1], list(f['eval/test/grid'].attrs['dims']))\n"
                                       "g = f['eval/test/grid'].dims[1]\n"
                                       "print(g[0][:].tolist(), f['config'].attrs['model.tied'])\n"
                                       "print(f.attrs['config'].splitlines()[1].strip())\n";
  const std::string command =
      "/usr/bin/python3 " + (folder / "read.py").string() + " " + (folder / "metrics.h5").string() + " 2>&1";
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  REQUIRE(pclose(pipe) == 0);
  REQUIRE(output == "64 training\n10 0.3 ['slice', 'rank']\n[1.0, 2.0, 4.0] True\nname: spamlang\n");
}

TEST_CASE("Checkpoint: weights, optimizer and state come back bit by bit", "[store]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "checkpoint.h5";
  Weights a, b;
  for (const auto& state : a.optimizer->state())
    for (int64_t i = 0; i < state.tensor.size(); ++i)
      state.tensor.data<float>()[i] = 0.1f * static_cast<float>(i + 1);
  CheckpointState state;
  state.run_id = "0123abcd";
  state.step = 7;
  state.tokens = 70;
  state.train_rows = 3;
  state.plateau = {0.25, 1.5, true};
  save_checkpoint(path, state, a.parameters, &*a.optimizer);

  std::fill_n(static_cast<float*>(b.parameters.flat_data()), b.parameters.flat_size(), 0.0f);
  const CheckpointState read = load_checkpoint(path, "0123abcd", b.parameters, &*b.optimizer);
  REQUIRE(b.all() == a.all());
  for (size_t i = 0; i < a.optimizer->state().size(); ++i) {
    const auto x = to_host<float>(cpu_backend(), a.optimizer->state()[i].tensor);
    REQUIRE(to_host<float>(cpu_backend(), b.optimizer->state()[i].tensor) == x);
  }
  REQUIRE(b.optimizer->updates() == 7);
  REQUIRE(read.tokens == 70);
  REQUIRE(read.train_rows == 3);
  REQUIRE(read.plateau.factor == 0.25);
  REQUIRE(read.plateau.seen);
}

TEST_CASE("Checkpoint: another run's, another model's or a damaged one is refused and nothing changes",
          "[store]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "checkpoint.h5";
  Weights a, other(4);
  CheckpointState state;
  state.run_id = "0123abcd";
  save_checkpoint(path, state, a.parameters, nullptr);
  const std::vector<float> before = other.all();
  const auto load = [&](const fs::path& file, const std::string& id, Weights& into, bool optimizer) {
    return message_of(
        [&] { load_checkpoint(file, id, into.parameters, optimizer ? &*into.optimizer : nullptr); });
  };
  REQUIRE(
      contains(load(path, "ffffffff", a, false), "belongs to run 0123abcd, expected one of run ffffffff"));
  REQUIRE(contains(load(path, "0123abcd", other, false), "params/embed.weight does not have shape (4, 5)"));
  REQUIRE(contains(load(path, "0123abcd", a, true), "optim/m.embed.weight is missing"));
  nn::Parameters fewer(cpu_backend(), DType::f32);
  fewer.add("norm.weight", {5}, nn::Init::constant(1.0), false);
  fewer.allocate();
  REQUIRE(contains(message_of([&] { load_checkpoint(path, "0123abcd", fewer, nullptr); }),
                   "params/embed.weight is not part of this model"));
  const auto cut = folder / "cut.h5";
  fs::copy_file(path, cut);
  fs::resize_file(cut, fs::file_size(path) / 2);
  REQUIRE(contains(load(cut, "0123abcd", other, false), "truncated or damaged"));
  write_metrics(folder / "metrics.h5", example_metrics());
  REQUIRE(contains(load(folder / "metrics.h5", "0123abcd", other, false), "not a checkpoint"));
  REQUIRE(other.all() == before);
}

TEST_CASE("Lock: one owner; a dead one is replaced", "[store]") {
  testing::TemporaryFolder folder;
  {
    RunLock lock(folder.path());
    REQUIRE_FALSE(lock.took_over());
    REQUIRE(RunLock::owner(folder.path()).has_value());
    REQUIRE_THROWS_AS(RunLock(folder.path()), LockedError);
    REQUIRE(contains(message_of([&] { RunLock second(folder.path()); }),
                     fmt::format("in use by process {}", getpid())));
  }
  REQUIRE_FALSE(fs::exists(folder / "lock"));

  const pid_t child = fork();
  if (child == 0) {
    new RunLock(folder.path());
    std::_Exit(0);  // dies with the lock in place
  }
  waitpid(child, nullptr, 0);
  REQUIRE(fs::exists(folder / "lock"));
  REQUIRE_FALSE(RunLock::owner(folder.path()).has_value());
  {
    RunLock lock(folder.path());
    REQUIRE(lock.took_over());
  }
  std::ofstream(folder / "lock") << "another-host 1 123\n";
  REQUIRE(contains(message_of([&] { RunLock lock(folder.path()); }), "if that has ended, delete"));
  REQUIRE(message_of([&] { RunLock lock(folder / "none"); }) ==
          fmt::format("[store] {}: cannot be locked: No such file or directory", (folder / "none").string()));
}

TEST_CASE("RunWriter: resumes from the checkpoint, with the journal folded in and later rows cut",
          "[store]") {
  testing::TemporaryFolder folder;
  Weights weights;
  {
    RunWriter writer = writer_in(folder.path());
    REQUIRE_FALSE(writer.resume(weights.parameters, *weights.optimizer).has_value());
    for (int64_t step = 1; step <= 3; ++step) writer.log(train_row(step));
    writer.log(ValidRow{3, 192, 1.0, 0.5});
    writer.save(at_step(3), weights.parameters, *weights.optimizer);
    for (int64_t step = 4; step <= 6; ++step) writer.log(train_row(step));
  }  // as if killed: rows 4 to 6 are in the journal only
  REQUIRE(read_metrics(folder / "metrics.h5").train.size() == 3);
  SECTION("checkpoint older than the journal") {
    RunWriter writer = writer_in(folder.path());
    const auto state = writer.resume(weights.parameters, *weights.optimizer);
    REQUIRE(state->step == 3);
    REQUIRE(writer.metrics().train.size() == 3);
    REQUIRE(writer.metrics().valid.size() == 1);
    REQUIRE(writer.metrics().resumes.size() == 1);
    REQUIRE(Journal::read(folder / "journal.bin").train.empty());
  }
  SECTION("killed between checkpoint and metrics file") {
    CheckpointState state = at_step(5);
    state.run_id = "0123abcd";
    state.train_rows = 5;
    state.valid_rows = 1;
    save_checkpoint(folder / "checkpoint.h5", state, weights.parameters, &*weights.optimizer);
    RunWriter writer = writer_in(folder.path());
    REQUIRE(writer.resume(weights.parameters, *weights.optimizer)->step == 5);
    REQUIRE(writer.metrics().train.size() == 5);
    REQUIRE(read_metrics(folder / "metrics.h5").train.back().step == 5);
  }
  SECTION("rows that the checkpoint counts are gone: from the beginning") {
    fs::remove(folder / "metrics.h5");
    RunWriter writer = writer_in(folder.path());
    REQUIRE_FALSE(writer.resume(weights.parameters, *weights.optimizer).has_value());
    REQUIRE(writer.metrics().train.empty());
  }
  SECTION("files of another run are refused and stay") {
    const auto before = fs::last_write_time(folder / "metrics.h5");
    RunWriter writer = writer_in(folder.path(), "ffffffff");
    REQUIRE(contains(message_of([&] { writer.resume(weights.parameters, *weights.optimizer); }),
                     "belongs to run 0123abcd"));
    REQUIRE(fs::last_write_time(folder / "metrics.h5") == before);
  }
  SECTION("a damaged metrics file is refused and stays") {
    fs::resize_file(folder / "metrics.h5", 1000);
    RunWriter writer = writer_in(folder.path());
    REQUIRE(contains(message_of([&] { writer.resume(weights.parameters, *weights.optimizer); }),
                     "truncated or damaged"));
    REQUIRE(fs::file_size(folder / "metrics.h5") == 1000);
  }
}

TEST_CASE("DONE names the content of metrics.h5", "[store]") {
  testing::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  REQUIRE_FALSE(run.trained());
  write_metrics(run.metrics(), example_metrics());
  run.write_done();
  REQUIRE(run.trained());
  Metrics changed = example_metrics();
  changed.train.back().loss += 1e-9;
  write_metrics(run.metrics(), changed);
  REQUIRE_FALSE(run.trained());
  REQUIRE(run_state(folder.path()) == RunState::missing);  // no config.yaml
}
