// Whole-model gradients: every variant of every head, and a control that must be caught.
#include "experiments/check/check_gradients.h"

#include "experiments/check/check_settings.h"
#include "tests/catch.h"

using namespace copylab;

namespace {

std::vector<std::string> small(std::vector<std::string> changes) {
  for (const char* assignment :
       {"task.vocab=11", "task.length=7", "task.period=3", "model.dim=8", "model.ffn=12"})
    changes.push_back(assignment);
  return changes;
}

}  // namespace

TEST_CASE("Gradients of whole models, every head variant", "[check]") {
  for (const auto& variant : head_variants()) {
    const GradientCheck check = check_model_gradient(check_settings(small(variant)), 3);
    CAPTURE(variant.front(), variant.back(), check.parameter);
    REQUIRE(check.worst < 1e-6);
  }
}

TEST_CASE("Gradients of LSTMs on streams, every head", "[check][stream]") {
  for (auto variant : stream_variants()) {
    for (const char* assignment : {"task.length=7", "model.dim=8"}) variant.push_back(assignment);
    const GradientCheck check = check_model_gradient(check_settings(variant), 3);
    CAPTURE(variant, check.parameter);
    REQUIRE(check.worst < 1e-6);
  }
}

TEST_CASE("Gradients of whole models, every choice of blocks", "[check]") {
  for (auto variant : block_variants()) {
    variant.push_back("model.layers=2");
    const GradientCheck check = check_model_gradient(check_settings(small(variant)), 3);
    CAPTURE(variant.front(), check.parameter);
    REQUIRE(check.worst < 1e-6);
  }
}

TEST_CASE("A gradient that is not that of the loss is seen", "[check]") {
  const auto changes = small({"head.kind=copy_paste", "head.detach=both"});
  REQUIRE(check_model_gradient(check_settings(changes), 3).worst > 1e-4);
}
