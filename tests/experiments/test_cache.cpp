// The memory of generation against the formula of the papers (CPLM §2.2), counted by hand.
#include "experiments/check/check_settings.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/measures/cache.h"
#include "tests/catch.h"

using namespace copylab;

namespace {

MeasureOutput measured(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  all.push_back("run.measures=cache");
  const Settings settings = check_settings(all);
  const auto task = find_task("spamlang").make(settings);
  const auto model = make_model(settings, *task, cpu_backend());
  MeasureOutput out;
  cache_measure.run({*model, nullptr, *task, settings, cpu_backend(), 1}, out);
  return out;
}

}  // namespace

TEST_CASE("cache: 2·L·w·D numbers of keys and values, and D per token of copy keys", "[measures]") {
  // D = 16, two layers, T = 64, w = 4.
  const std::vector<std::string> shape = {"model.dim=16",     "model.layers=2", "model.heads=2",
                                          "model.kv_heads=2", "task.length=64", "model.window=4"};
  const auto with = [&](std::vector<std::string> changes) {
    changes.insert(changes.end(), shape.begin(), shape.end());
    return measured(changes);
  };
  const MeasureOutput full = with({"model.backbone=full", "head.kind=vanilla"});
  REQUIRE(full.arrays.at("bytes").values ==
          std::vector<double>{4 * 4 * 16 * 64, 4 * 4 * 16 * 256, 4 * 4 * 16 * 1024});
  REQUIRE(full.arrays.at("full_ratio").values == std::vector<double>{1, 1, 1});
  const MeasureOutput sliding = with({"model.backbone=sliding", "head.kind=copy_paste"});
  REQUIRE(sliding.arrays.at("bytes").values[0] == 4 * (4 * 16 * 4 + 16 * 64));
  // T = 16·w: 2·L·16/(2·L + 16).
  REQUIRE(sliding.arrays.at("full_ratio").values[0] == Approx(64.0 / 20.0));
  REQUIRE(sliding.arrays.at("bytes_per_token").values[0] == 4.0 * (4 * 16 * 4 + 16 * 64) / 64);
}
