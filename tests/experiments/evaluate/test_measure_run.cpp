// Measures on runs: by the worker, and on a finished run.

#include <cmath>

#include "core/io/hdf5.h"
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
