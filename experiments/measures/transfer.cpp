// transfer: loss on text that the model was not trained on.
#include "experiments/measures/transfer.h"

#include <cmath>

#include "experiments/evaluate/evaluate.h"

namespace copylab {
namespace {

std::vector<Field> fields() {
  return {
      {"measure.transfer.corpus", std::string("novels"),
       "a shipped corpus or a path, read with the tokenizer of the training text; its test split counts"},
      {"measure.transfer.sequences", int64_t{512}, "sequences of the test split", 1, 1 << 30},
  };
}

void run(const MeasureInput& in, MeasureOutput& out) {
  expect(in.settings.has("task.test_corpus"), "transfer", "a run on text expected: got task.name={}",
         in.settings.text("task.name"));
  Settings elsewhere = in.settings;
  elsewhere.set("task.test_corpus", in.settings.text("measure.transfer.corpus"));
  const auto task = find_task(in.settings.text("task.name")).make(elsewhere);
  const Evaluation e =
      evaluate(in.model, *task, Split::test, in.seed, in.settings.integer("measure.transfer.sequences"),
               in.settings.integer("eval.batch"));
  out = describe(e, *task, 0);
  out.scalar("perplexity", std::exp(e.loss()), "exp of the loss");
}

}  // namespace

const MeasureEntry transfer_measure = {"transfer", "the test results of a run on text of another corpus (C5)",
                                       fields, run};

}  // namespace copylab
