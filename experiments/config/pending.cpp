// Registries that have not landed yet.
#include "core/nn/model.h"
#include "experiments/measures/measure.h"

namespace copylab {
__attribute__((weak)) const std::vector<MeasureEntry>& measure_registry() {
  static const std::vector<MeasureEntry> registry;
  return registry;
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
