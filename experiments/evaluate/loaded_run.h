// LoadedRun: a run's settings, task and trained model, read from its folder.
#pragma once

#include <filesystem>
#include <memory>

#include "core/nn/model.h"
#include "core/settings.h"
#include "tasks/task.h"

namespace copylab {

// The backend that run.device names; throws Error where this build or machine has none.
const Backend& backend_of(const Settings& settings);

struct LoadedRun {
  std::filesystem::path folder;
  Settings settings;
  std::unique_ptr<Task> task;
  std::unique_ptr<nn::Model> model;  // weights of checkpoint.h5; of a run without updates, the initial ones
  int64_t step = 0;                  // of the checkpoint
};

// Throws Error for a run without a checkpoint, unless it ends at step 0 and so needs none.
LoadedRun load_run(const std::filesystem::path& folder);

std::unique_ptr<nn::Model> make_model(const Settings& settings, const Task& task, const Backend& backend);

// A model with a run's weights of step 0: those of checkpoint-0.h5 in `folder`, else the final ones of the
// parent's folder, else, without a parent, drawn again from the seed. Null if none of these is possible.
std::unique_ptr<nn::Model> initial_model(const Settings& settings, const Task& task, const Backend& backend,
                                         const std::filesystem::path& folder,
                                         const std::filesystem::path& parent);

}  // namespace copylab
