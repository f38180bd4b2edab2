// Measures on runs: by the worker, and on a finished run.

#include <cmath>

#include "core/io/hdf5.h"
#include "experiments/check/check_settings.h"
#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/evaluate/measure_run.h"
#include "experiments/store/metrics.h"
#include "experiments/store/run_folder.h"
#include "tests/catch.h"
#include "tests/experiments/worker_process.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::Ended;
using copylab::testing::new_run;
using copylab::testing::work;
namespace fs = std::filesystem;

TEST_CASE("Measures: with the run, or on a finished one", "[worker]") {
  testing::TemporaryFolder folder;
  const std::string name = measure_registry().front().name;
  const fs::path with = new_run(folder, "with", {"train.steps=10", "run.measures=" + name});
  const Ended ended = work(with);
  CAPTURE(name, ended.error);
  REQUIRE(ended.exit_code == 0);
  REQUIRE(run_state(with) == RunState::done);

  // The same run without: measured later it gives the same numbers, and training is not touched.
  const fs::path without = new_run(folder, "without", {"train.steps=10"});
  REQUIRE(work(without).exit_code == 0);
  const auto trained = fs::last_write_time(without / "checkpoint.h5");
  measure_run(without, name, {});
  REQUIRE(fs::last_write_time(without / "checkpoint.h5") == trained);
  REQUIRE(run_state(without) == RunState::done);
  const Metrics a = read_metrics(with / "metrics.h5"), b = read_metrics(without / "metrics.h5");
  REQUIRE(a.results.at(name).settings == b.results.at(name).settings);
  REQUIRE_FALSE(a.results.at(name).output.arrays.empty());
  for (const auto& [array, value] : a.results.at(name).output.arrays) {
    CAPTURE(array);
    const auto& other = b.results.at(name).output.arrays.at(array);
    REQUIRE(value.shape == other.shape);
    for (size_t i = 0; i < value.values.size(); ++i)
      REQUIRE((value.values[i] == other.values[i] || std::isnan(value.values[i])));
  }
  REQUIRE_THROWS_AS(measure_run(without, name, {parse_assignment("train.lr=1")}), ConfigError);
  REQUIRE_THROWS_AS(measure_run(without, "nonsense", {}), Error);
}

TEST_CASE("Measures over training: every kept checkpoint, in order", "[worker]") {
  testing::TemporaryFolder folder;
  const std::vector<std::string> changes = {"train.steps=27", "train.keep=2", "run.measures=head_gradient",
                                            "measure.head_gradient.over_training=true"};
  const fs::path run = new_run(folder, "run", changes);
  const Ended ended = work(run);
  CAPTURE(ended.error);
  REQUIRE(ended.exit_code == 0);
  REQUIRE(run_state(run) == RunState::done);
  const MeasureOutput out = read_metrics(run / "metrics.h5").results.at("head_gradient").output;
  REQUIRE(out.coordinates.at("step") == std::vector<double>{0, 3, 9, 27});  // 27^(1/3), 27^(2/3)
  for (const auto& [name, array] : out.arrays) {
    if (name.rfind(kTraining, 0) == 0) continue;
    CAPTURE(name);
    const MeasureOutput::Array& series = out.arrays.at(kTraining + name);
    REQUIRE(series.shape.front() == 4);
    REQUIRE(series.dims.front() == "step");
    const size_t row = array.values.size();
    REQUIRE(series.values.size() == 4 * row);
    for (size_t i = 0; i < row; ++i)  // the last row is the finished model
      REQUIRE((series.values[3 * row + i] == array.values[i] || std::isnan(array.values[i])));
  }
  const MeasureOutput::Array& r = out.arrays.at(kTraining + "r");
  REQUIRE(r.values[0] == out.arrays.at("initial_r").values[0]);
  REQUIRE(r.values[1] != r.values[0]);

  REQUIRE_THROWS_AS(measure_run(run, "induction", {parse_assignment("measure.induction.score_block=65")}),
                    ConfigError);

  const fs::path none = new_run(folder, "none", {"train.steps=5"});
  REQUIRE(work(none).exit_code == 0);
  REQUIRE_THROWS_WITH(
      measure_run(none, "head_gradient", {parse_assignment("measure.head_gradient.over_training=true")}),
      Catch::Contains("keeps no checkpoints: it was trained without train.keep=N"));
}

TEST_CASE("Measures: a text that has changed since is noticed by all that reads a run, and named",
          "[worker]") {
  testing::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string file = folder.write("my.txt", text).string();
  Settings settings =
      check_settings({"task.name=text", "task.path=" + file, "task.level=byte", "task.length=16",
                      "train.steps=5", "eval.sequences=2", "eval.test_sequences=2"});
  const std::string before = run_id(settings);
  complete(Catalogue::installed(), settings);
  CHECK(run_id(settings) != before);
  const fs::path run = folder / "run";
  h5::write_text(folder.write("run/config.yaml", ""), to_yaml(settings));
  REQUIRE(work(run).exit_code == 0);
  REQUIRE_NOTHROW(measure_run(run, "overhead", {parse_assignment("measure.overhead.repeats=1")}));

  folder.write("my.txt", text + "more\n");
  const std::string problem = "[text] " + file + ": its text has changed since the run was made";
  CHECK_THROWS_WITH(measure_run(run, "overhead", {}), Catch::StartsWith(problem));
  CHECK_THROWS_WITH(load_run(run), Catch::StartsWith(problem));
  fs::remove(run / "DONE");
  const Ended ended = work(run);
  CHECK(ended.exit_code == 1);
  CHECK(ended.error.starts_with(problem));
  // The changed text makes another run.
  Settings changed =
      check_settings({"task.name=text", "task.path=" + file, "task.level=byte", "task.length=16",
                      "train.steps=5", "eval.sequences=2", "eval.test_sequences=2"});
  complete(Catalogue::installed(), changed);
  CHECK(run_id(changed) != run_id(settings));

  folder.write("my.txt", text);
  CHECK(work(run).exit_code == 0);
}
