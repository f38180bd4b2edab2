// Same bits for any number of threads.
#include "experiments/check/check_threads.h"

#include <omp.h>

#include <string_view>

#include "core/random.h"
#include "experiments/check/check_settings.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/train/trainer.h"

namespace copylab {

uint64_t training_hash(const Settings& settings, int64_t steps, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = make_model(settings, *task, cpu_backend());
  const auto seed = static_cast<uint64_t>(settings.integer("train.seed"));
  model->initialise(seed);
  Trainer trainer(*task, *model, train_plan(settings, *task), seed);
  std::string bytes;
  for (int64_t i = 0; i < steps; ++i) {
    const Trainer::Update update = trainer.update();
    bytes.append(reinterpret_cast<const char*>(&update), sizeof(update));
  }
  omp_set_num_threads(before);
  const auto& parameters = model->parameters();
  bytes.append(static_cast<const char*>(parameters.flat_data()),
               sizeof(float) * static_cast<size_t>(parameters.flat_size()));
  return hash_name(bytes);
}

int check_threads(std::ostream& out) {
  bool equal = true;
  const auto compare = [&](const std::string& name, const Settings& settings) {
    const uint64_t reference = training_hash(settings, 5, 1);
    out << fmt::format("{:<12} 1 thread   {:016x}\n", name, reference);
    for (int threads : {2, 3}) {
      const uint64_t hash = training_hash(settings, 5, threads);
      out << fmt::format("{:<12} {} threads  {:016x} {}\n", name, threads, hash,
                         hash == reference ? "equal" : "DIFFERENT");
      equal = equal && hash == reference;
    }
  };
  // Wide enough that every kind of kernel divides its work.
  for (const nn::HeadEntry& head : nn::head_registry())
    compare(head.name, check_settings({std::string("head.kind=") + head.name, "task.vocab=3000",
                                       "task.length=64", "model.dim=64", "model.heads=4", "model.kv_heads=2",
                                       "model.ffn=160", "model.layers=2", "train.batch=16"}));
  std::vector<std::string> stream = stream_changes();
  for (const char* wider : {"task.lanes=20", "train.batch=20", "task.length=64", "model.dim=96"})
    stream.push_back(wider);
  compare("lstm stream", check_settings(stream));
  return equal ? 0 : 3;
}

}  // namespace copylab
