// Trains a fresh model and hashes it.
#include "experiments/check/training_hash.h"

#include <string>

#include "core/random.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/train/trainer.h"

namespace copylab {

TrainingHash training_hash(const Backend& backend, const Settings& settings, int64_t updates) {
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = make_model(settings, *task, backend);
  const auto seed = static_cast<uint64_t>(settings.integer("train.seed"));
  model->initialise(seed);
  Trainer trainer(*task, *model, train_plan(settings, *task), seed);
  std::string bytes;
  for (int64_t i = 0; i < updates; ++i) {
    const Trainer::Update update = trainer.update();
    bytes.append(reinterpret_cast<const char*>(&update), sizeof(update));
  }
  const auto& parameters = model->parameters();
  std::string weights(sizeof(float) * static_cast<size_t>(parameters.flat_size()), '\0');
  backend.copy_out(weights.data(), parameters.flat_data(), weights.size());
  TrainingHash result{hash_name(bytes + weights)};
  if (trainer.graph_counts()) result.graph = *trainer.graph_counts();
  return result;
}

}  // namespace copylab
