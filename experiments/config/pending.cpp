// Registries that have not landed yet.
#include "core/nn/model.h"
#include "experiments/measures/measure.h"
#include "experiments/train/train_fields.h"
#include "tasks/task.h"

namespace copylab {
__attribute__((weak)) const std::vector<TaskEntry>& task_registry() {
  static const std::vector<TaskEntry> registry;
  return registry;
}
__attribute__((weak)) const std::vector<MeasureEntry>& measure_registry() {
  static const std::vector<MeasureEntry> registry;
  return registry;
}
__attribute__((weak)) std::vector<Field> train_fields() {
  return {{.path = "train.seed",
           .fallback = int64_t{1},
           .doc = "seed of weights, data order and dropout",
           .min = 0},
          {.path = "train.threads",
           .fallback = int64_t{0},
           .doc = "threads; 0 = all that the sweep leaves",
           .min = 0,
           .semantic = false},
          {.path = "train.steps", .fallback = int64_t{300}, .doc = "optimizer steps", .min = 1},
          {.path = "train.batch", .fallback = int64_t{8}, .doc = "sequences per step", .min = 1},
          {.path = "train.lr", .fallback = 1e-3, .doc = "peak learning rate", .min = 0}};
}
namespace nn {
__attribute__((weak)) std::vector<Field> model_fields() {
  return {};
}
__attribute__((weak)) const std::vector<HeadEntry>& head_registry() {
  static const std::vector<HeadEntry> registry;
  return registry;
}
}  // namespace nn
}  // namespace copylab
