// Measures on trained models.
#include "experiments/evaluate/measure_run.h"

#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/store/checkpoint.h"
#include "experiments/store/lock.h"
#include "experiments/store/metrics.h"
#include "experiments/store/run_folder.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

namespace copylab {

namespace {

// Adds each array of `now` to the one of its name in `series`, as the next row of a leading axis `step`.
void append_step(MeasureOutput& series, const MeasureOutput& now, const std::string& measure) {
  for (const auto& [name, array] : now.arrays) {
    MeasureOutput::Array& rows = series.arrays[kTraining + name];
    if (rows.shape.empty()) {
      rows.shape = array.shape;
      rows.shape.insert(rows.shape.begin(), 0);
      rows.dims = array.dims;
      rows.dims.insert(rows.dims.begin(), "step");
      rows.doc = array.doc;
    }
    expect(std::equal(array.shape.begin(), array.shape.end(), rows.shape.begin() + 1, rows.shape.end()),
           measure.c_str(), "over_training: {} has another shape at another checkpoint", name);
    rows.values.insert(rows.values.end(), array.values.begin(), array.values.end());
    ++rows.shape.front();
  }
}

}  // namespace

MeasureOutput run_measure(const std::string& name, const Settings& settings, const Task& task,
                          nn::Model& model, nn::Model* initial, const RunFolder& folder, SplitCache* cache) {
  const MeasureEntry& measure = find_measure(name);
  const auto input = [&](nn::Model& on, SplitCache* kept) {
    const auto seed = static_cast<uint64_t>(settings.integer("train.seed"));
    return MeasureInput{on, initial, task, settings, model.parameters().backend(), seed, kept};
  };
  const auto measured = [&](nn::Model& on, SplitCache* kept) {
    MeasureOutput out;
    measure.run(input(on, kept), out);
    return out;
  };
  if (measure.plan) measure.plan(input(model, nullptr));  // what is wrong with the settings is said first
  MeasureOutput out = measured(model, cache);
  if (!settings.flag("measure." + name + ".over_training")) return out;

  const auto kept = folder.kept_checkpoints();
  expect_config(
      kept.size() > 1,
      "measure.{}.over_training: {} keeps no checkpoints: it was trained without train.keep=N; remove it to "
      "train it again",
      name, folder.path.string());
  const auto past = make_model(settings, task, model.parameters().backend());
  past->allocate();
  MeasureOutput series;
  std::vector<double> steps;
  for (const auto& [step, file] : kept) {
    load_checkpoint(file, run_id(settings), past->parameters(), nullptr);
    append_step(series, measured(*past, nullptr), name);
    steps.push_back(static_cast<double>(step));
  }
  out.arrays.merge(series.arrays);
  out.coordinate("step", std::move(steps));
  return out;
}

MeasureOutput measure_run(const std::filesystem::path& path, const std::string& name,
                          const std::vector<RawConfig::Entry>& changes) {
  find_measure(name);
  const RunFolder folder{path};
  const RunLock lock(path);
  expect(folder.trained(), "measure", "{}: the run has not been trained to its end", path.string());
  const std::string prefix = "measure." + name + ".";
  RawConfig chosen;
  RawValue only;
  only.text = name;
  chosen.set("run.measures", only);
  for (const RawConfig::Entry& change : changes) {
    if (change.key.rfind(prefix, 0) != 0 && change.key != "train.threads")
      throw ConfigError(
          fmt::format("{}: expected a setting of the measure ({}…), got one of the run", change.key, prefix));
    chosen.set(change.key, change.value);
  }
  RawConfig config = flatten(load_yaml(folder.config()), folder.config().string());
  std::erase_if(config.entries, [](const RawConfig::Entry& entry) {
    return entry.key == "run.measures" || entry.key.rfind("measure.", 0) == 0;
  });
  Settings settings = resolve(Catalogue::installed(), {config, chosen});
  complete_measures(Catalogue::installed(), settings);

  LoadedRun run = load_run(path);
  const auto initial =
      run.step > 0 ? initial_model(run.settings, *run.task, run.model->parameters().backend(), path, {})
                   : nullptr;  // a run of no updates is its own
  MeasureOutput output = run_measure(name, settings, *run.task, *run.model, initial.get(), folder, nullptr);
  Metrics metrics = read_metrics(folder.metrics());
  metrics.settings = run.settings;
  metrics.results[name] = {output, measure_settings(settings, name)};
  write_metrics(folder.metrics(), metrics);
  folder.write_done();
  folder.append_log("measured " + name);
  return output;
}

}  // namespace copylab
