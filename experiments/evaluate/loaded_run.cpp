// LoadedRun: rebuilds a model from config.yaml and fills it from a checkpoint.
#include "experiments/evaluate/loaded_run.h"

#include "core/cuda/gpu.h"
#include "experiments/config/resolve.h"
#include "experiments/store/checkpoint.h"
#include "experiments/store/run_folder.h"
#include "experiments/train/train_plan.h"
#include "experiments/train/trainer.h"

namespace copylab {

const Backend& backend_of(const Settings& settings) {
  if (settings.text("run.device") == "cpu") return cpu_backend();
  const char* why = "";
  const Backend* backend = cuda_backend(&why);
  expect(backend != nullptr, "device", "run.device=cuda: {}", why);
  set_gpu_precision(settings.text("run.precision"));
  return *backend;
}

std::unique_ptr<nn::Model> make_model(const Settings& settings, const Task& task, const Backend& backend) {
  auto model = std::make_unique<nn::Model>(backend, DType::f32, settings, task.vocab(), task.length());
  model->expect_meta(meta_share(task));
  return model;
}

LoadedRun load_run(const std::filesystem::path& path) {
  const RunFolder folder{path};
  LoadedRun run;
  run.folder = path;
  run.settings = load_settings(folder.config());
  const std::string id = run_id(run.settings);
  const Backend& backend = backend_of(run.settings);
  run.task = find_task(run.settings.text("task.name")).make(run.settings);
  if (train_plan(run.settings, *run.task).steps == 0) {
    run.model = initial_model(run.settings, *run.task, backend, path, {});
    expect(run.model != nullptr, "run", "{}: its weights are those of another run", path.string());
    return run;
  }
  expect(std::filesystem::exists(folder.checkpoint()), "run", "{}: has no checkpoint.h5 yet", path.string());
  run.model = make_model(run.settings, *run.task, backend);
  run.model->allocate();
  run.step = load_checkpoint(folder.checkpoint(), id, run.model->parameters(), nullptr).step;
  return run;
}

std::unique_ptr<nn::Model> initial_model(const Settings& settings, const Task& task, const Backend& backend,
                                         const std::filesystem::path& folder,
                                         const std::filesystem::path& parent) {
  auto model = make_model(settings, task, backend);
  model->allocate();
  const std::filesystem::path first = RunFolder{folder}.first_checkpoint();
  const std::string& parent_id = settings.text("run.parent");
  if (std::filesystem::exists(first))
    load_checkpoint(first, run_id(settings), model->parameters(), nullptr);
  else if (parent_id.empty())
    model->initialise(static_cast<uint64_t>(settings.integer("train.seed")));
  else if (!parent.empty())
    load_checkpoint(RunFolder{parent}.checkpoint(), parent_id, model->parameters(), nullptr);
  else
    model.reset();
  return model;
}

}  // namespace copylab
