// A small model on SpamLang with its settings and task, for the tests of what trains and evaluates it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/check/check_settings.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/train/trainer.h"

namespace copylab::testing {

struct SmallModel {
  Settings settings;
  std::unique_ptr<Task> task;
  std::unique_ptr<nn::Model> model;

  explicit SmallModel(const std::vector<std::string>& changes = {})
      : settings(check_settings(changes)),
        task(find_task("spamlang").make(settings)),
        model(make_model(settings, *task, cpu_backend())) {
    model->initialise(1);
  }
  std::unique_ptr<Trainer> make_trainer() {
    return std::make_unique<Trainer>(*task, *model, train_plan(settings, *task), 1);
  }
};

}  // namespace copylab::testing
