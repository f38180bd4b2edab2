// Everything that ships trains: each arm of each experiment in each preset, each head and each task, two
// updates.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/nn/backbone.h"
#include "experiments/check/check_gradients.h"
#include "experiments/check/check_settings.h"
#include "experiments/config/expand.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/train/train_plan.h"
#include "experiments/train/trainer.h"
#include "tests/catch.h"

using namespace copylab;

namespace {

void train_two_updates(const Settings& settings) {
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = make_model(settings, *task, cpu_backend());
  model->initialise(1);
  Trainer trainer(*task, *model, train_plan(settings, *task), 1);
  const Trainer::Update first = trainer.update(), second = trainer.update();
  CHECK(std::isfinite(first.loss));
  CHECK(first.grad_norm > 0);
  CHECK(second.loss != first.loss);
}

// Floating-point operations, forward and backward.
double cost_of_two_updates(const Settings& settings) {
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = make_model(settings, *task, cpu_backend());
  const double tokens = static_cast<double>(settings.integer("train.batch") * task->length());
  return 2 * 3 * tokens * model->flops_per_token(task->length());
}

bool declares(const std::vector<Field>& fields, const std::string& path) {
  return std::any_of(fields.begin(), fields.end(), [&](const Field& field) { return field.path == path; });
}

}  // namespace

TEST_CASE("Every arm of every shipped experiment trains", "[every]") {
  const std::filesystem::path configs = std::filesystem::path(COPYLAB_SOURCE_DIR) / "configs";
  for (const auto& file : std::filesystem::directory_iterator(configs)) {
    if (file.path().extension() != ".yaml") continue;
    for (const std::string& preset : load_experiment(file.path(), "none").presets) {
      const Expansion expansion(Catalogue::installed(), load_experiment(file.path(), preset));
      std::set<std::string> seen;
      for (const Cell& cell : expansion.first()) {
        if (!seen.insert(cell.arm).second) continue;
        // Not a section: Catch would expand all experiments again for each.
        INFO(file.path().stem().string() << " " << preset << " " << cell.arm);
        // Cells without updates measure initial weights, some of models too large to train in a test; so are
        // the presets for larger machines, which are built but not trained.
        for (const Stage& stage : cell.stages)
          if (stage.settings.integer("train.steps") > 0 && cost_of_two_updates(stage.settings) < 3e10)
            train_two_updates(stage.settings);
      }
    }
  }
}

TEST_CASE("Every head trains", "[every]") {
  for (const nn::HeadEntry& head : nn::head_registry()) {
    DYNAMIC_SECTION(head.name) {
      train_two_updates(check_settings({std::string("head.kind=") + head.name}));
    }
  }
}

TEST_CASE("Every backbone trains with every head, on sequences and on streams", "[every]") {
  for (const nn::BackboneEntry& backbone : nn::backbone_registry())
    for (const nn::HeadEntry& head : nn::head_registry())
      for (const bool stream : {false, true}) {
        DYNAMIC_SECTION(backbone.name << " " << head.name << (stream ? " streams" : "")) {
          std::vector<std::string> changes = stream ? stream_changes() : std::vector<std::string>{};
          std::erase(changes, "head.window=20");
          std::erase_if(changes, [](const std::string& c) { return c.starts_with("model.zoneout"); });
          if (!declares(backbone.fields(), "model.ffn")) changes.push_back("model.ffn=0");
          if (declares(backbone.fields(), "model.zoneout_h"))
            for (const char* assignment :
                 {"model.zoneout_h=0.1", "model.zoneout_c=0.1", "model.init_range=0.05"})
              changes.push_back(assignment);
          if (stream && declares(head.fields(), "head.window")) changes.push_back("head.window=20");
          changes.push_back(std::string("model.kind=") + backbone.name);
          changes.push_back(std::string("head.kind=") + head.name);
          train_two_updates(check_settings(changes));
        }
      }
}

TEST_CASE("Every choice of blocks trains", "[every]") {
  for (const std::vector<std::string>& variant : block_variants()) {
    DYNAMIC_SECTION(variant.front() << " … " << variant.back()) {
      train_two_updates(check_settings(variant));
    }
  }
}

TEST_CASE("Every task trains, in each of its variants", "[every]") {
  for (const TaskEntry& task : task_registry()) {
    const auto variants = task.variants();
    REQUIRE(!variants.empty());
    for (size_t i = 0; i < variants.size(); ++i) {
      DYNAMIC_SECTION(task.name << " variant " << i) {
        Settings settings = check_settings({std::string("task.name=") + task.name});
        for (const auto& [path, value] : variants[i]) settings.set(path, value);
        if (settings.has("task.lanes") && settings.integer("task.lanes") > 0) {
          settings.set("train.batch", settings.integer("task.lanes"));
          settings.set("train.accumulate", int64_t{1});
        }
        train_two_updates(settings);
      }
    }
  }
}
