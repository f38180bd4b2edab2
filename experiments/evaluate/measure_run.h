// Measures on trained models: one that a worker has in memory, or a run's folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/nn/model.h"
#include "core/settings.h"
#include "experiments/config/raw.h"
#include "experiments/measures/measure.h"
#include "experiments/store/run_folder.h"
#include "tasks/task.h"

namespace copylab {

// Arrays over training are named with this prefix: "training/r" has the axes of "r" behind the axis "step".
inline const std::string kTraining = "training/";

// `initial` may be null; `settings` hold measure.<name>.…. With measure.<name>.over_training every checkpoint
// that `folder` keeps is measured, too. `cache` may hold splits
// that an earlier measure scored with this model's weights, or be null. Throws ConfigError for settings that
// do not fit the run, and where it keeps no checkpoints.
MeasureOutput run_measure(const std::string& name, const Settings& settings, const Task& task,
                          nn::Model& model, nn::Model* initial, const RunFolder& folder, SplitCache* cache);

// Measures a finished run and stores the result under /eval/<name>/ of its metrics file, in place of an
// earlier one. `changes` may set measure.<name>.… and train.threads; anything else throws ConfigError.
MeasureOutput measure_run(const std::filesystem::path& folder, const std::string& name,
                          const std::vector<RawConfig::Entry>& changes);

}  // namespace copylab
