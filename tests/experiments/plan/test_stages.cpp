// Stages: what one may change of the one before it.
#include "experiments/plan/estimate.h"

#include "experiments/check/check_settings.h"
#include "experiments/config/error.h"
#include "tests/catch.h"

using namespace copylab;

TEST_CASE("a stage continues one whose model has the same parameters", "[estimate]") {
  const Settings text = check_settings({"task.name=text", "task.corpus=tinyshakespeare", "task.level=byte",
                                        "task.vocab=0", "task.symbols=true", "task.meta_rate=0.1"});
  const Settings prompts = check_settings({"task.name=list_recall", "task.vocab=297", "task.length=32"});
  CHECK_NOTHROW(expect_continues(text, prompts));
  CHECK_NOTHROW(
      expect_continues(prompts, check_settings({"task.name=parity", "task.vocab=297", "train.lr=0.1"})));
  CHECK_THROWS_WITH(
      expect_continues(text, check_settings({"task.name=list_recall", "task.vocab=296", "task.length=32"})),
      "embed.weight: expected (298, 16) as in the stage before, got (297, 16): stages share task.vocab "
      "(V) and model.*");
  CHECK_THROWS_WITH(
      expect_continues(text, check_settings({"task.name=parity", "task.vocab=297", "head.kind=vanilla"})),
      Catch::Contains("as in the stage before, got none"));
  CHECK_THROWS_AS(
      expect_continues(text, check_settings({"task.name=parity", "task.vocab=297", "model.layers=2"})),
      ConfigError);
}
