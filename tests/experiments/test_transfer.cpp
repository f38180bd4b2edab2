// transfer: the numbers of an evaluation on the other corpus, and nothing of the own one.
#include <cmath>

#include "experiments/check/check_settings.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/measures/transfer.h"
#include "tests/catch.h"

using namespace copylab;

TEST_CASE("transfer: test text of another corpus, the model and its tokens unchanged", "[measures]") {
  std::vector<std::string> changes = {"task.name=text",
                                      "task.corpus=tinyshakespeare",
                                      "task.level=byte",
                                      "task.length=16",
                                      "run.measures=transfer",
                                      "measure.transfer.corpus=novels",
                                      "measure.transfer.sequences=8"};
  const Settings settings = check_settings(changes);
  const auto task = find_task("text").make(settings);
  const auto model = make_model(settings, *task, cpu_backend());
  model->initialise(3);
  MeasureOutput out;
  transfer_measure.run({*model, nullptr, *task, settings, cpu_backend(), 1}, out);

  changes.push_back("task.test_corpus=novels");
  const auto novels = find_task("text").make(check_settings(changes));
  REQUIRE(novels->vocab() == task->vocab());
  const double expected = evaluate(*model, *novels, Split::test, 1, 8, 8).loss();
  REQUIRE(out.arrays.at("loss").values[0] == Approx(expected).epsilon(1e-6));
  REQUIRE(evaluate(*model, *task, Split::test, 1, 8, 8).loss() != Approx(expected).epsilon(1e-6));
  REQUIRE(out.arrays.at("bits_per_byte").values[0] == Approx(expected / std::log(2.0)));

  const Settings symbols = check_settings({"run.measures=transfer"});
  const auto spam = find_task("spamlang").make(symbols);
  REQUIRE_THROWS_WITH(transfer_measure.run({*model, nullptr, *spam, symbols, cpu_backend(), 1}, out),
                      "[transfer] a run on text expected: got task.name=spamlang");
}
