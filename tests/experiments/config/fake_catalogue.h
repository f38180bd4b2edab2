// A small catalogue for the tests of configuration: two tasks, two heads, two measures, one preset.
#pragma once

#include <string>

#include "experiments/config/resolve.h"
#include "experiments/config/run_fields.h"

namespace copylab::testing {

inline Catalogue fake_catalogue() {
  Catalogue c;
  c.common = run_fields();
  c.common.insert(
      c.common.end(),
      {{.path = "train.seed", .fallback = int64_t{1}, .doc = "seed", .min = 0},
       {.path = "train.steps", .fallback = int64_t{300}, .doc = "steps", .min = 1, .max = 1e6},
       {.path = "train.batch", .fallback = int64_t{8}, .doc = "sequences", .min = 1},
       {.path = "train.lr", .fallback = 1e-3, .doc = "learning rate", .min = 0, .max = 10},
       {.path = "train.threads", .fallback = int64_t{0}, .doc = "threads", .min = 0, .semantic = false},
       {.path = "eval.batches", .fallback = int64_t{4}, .doc = "batches", .min = 1},
       {.path = "model.preset",
        .fallback = std::string("nano"),
        .doc = "shape",
        .choices = {"nano", "micro"},
        .semantic = false},
       {.path = "model.dim", .fallback = int64_t{64}, .doc = "width", .min = 1},
       {.path = "model.windows", .fallback = std::vector<int64_t>{}, .doc = "windows", .min = 0, .max = 4096},
       {.path = "model.tied", .fallback = true, .doc = "share the embedding"}});
  c.tasks = {{"spamlang",
              "one symbol",
              1,
              {{.path = "task.vocab", .fallback = int64_t{256}, .doc = "V", .min = 2},
               {.path = "task.length", .fallback = int64_t{64}, .doc = "T", .min = 2}}},
             {"recall",
              "pairs",
              4,
              {{.path = "task.pairs", .fallback = int64_t{4}, .doc = "pairs", .min = 1},
               {.path = "task.vocab", .fallback = int64_t{512}, .doc = "V", .min = 2}}}};
  c.heads = {
      {"vanilla", "", 0, {}},
      {"copy_paste",
       "",
       0,
       {{.path = "head.gate", .fallback = std::string("slot"), .doc = "gate", .choices = {"slot", "sigmoid"}},
        {.path = "head.copy_self", .fallback = true, .doc = "self"},
        {.path = "head.floor", .fallback = 0.0, .doc = "gate floor", .min = 0, .max = 1}}}};
  c.measures = {
      {"rank", "", 0, {{.path = "measure.rank.samples", .fallback = int64_t{100}, .doc = "n", .min = 1}}},
      {"probe", "", 0, {{.path = "measure.probe.layer", .fallback = int64_t{0}, .doc = "layer", .min = 0}}}};
  c.presets["micro"] = {{"model.dim", int64_t{128}}};
  return c;
}

// Settings from "key=value" texts over task.name=spamlang.
inline Settings settings_of(const Catalogue& catalogue, const std::vector<std::string>& assignments) {
  RawConfig base;
  base.set("task.name", {RawValue::Kind::scalar, "spamlang", {}, ""});
  RawConfig command;
  for (const std::string& text : assignments) {
    const RawConfig::Entry entry = parse_assignment(text);
    command.set(entry.key, entry.value);
  }
  return resolve(catalogue, {base, command});
}

}  // namespace copylab::testing
