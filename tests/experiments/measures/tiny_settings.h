// Settings of a model small enough for brute force, with every measure's defaults.
#pragma once

#include "core/nn/model.h"
#include "experiments/measures/measure.h"
#include "experiments/train/train_fields.h"

namespace copylab {

inline Settings tiny_settings(const std::string& head, bool tied, int64_t rank = 0) {
  Settings settings;
  for (const Field& field : nn::model_fields()) settings.set(field.path, field.fallback);
  for (const Field& field : nn::find_head(head).fields()) settings.set(field.path, field.fallback);
  for (const MeasureEntry& entry : measure_registry())
    for (const Field& field : entry.fields()) settings.set(field.path, field.fallback);
  for (const Field& field : train_fields()) settings.set(field.path, field.fallback);
  settings.set("eval.sequences", int64_t{12});
  settings.set("eval.test_sequences", int64_t{8});
  settings.set("eval.batch", int64_t{5});
  settings.set("head.kind", head);
  settings.set("head.rank", rank);
  settings.set("model.tied", tied);
  settings.set("model.dim", int64_t{8});
  settings.set("model.heads", int64_t{2});
  settings.set("model.kv_heads", int64_t{2});
  settings.set("model.layers", int64_t{1});
  return settings;
}

}  // namespace copylab
