// transfer: loss on text that the model was not trained on.
#include "experiments/measures/transfer.h"

#include <cmath>

#include "experiments/evaluate/evaluate.h"
#include "tasks/text/content.h"

namespace copylab {
namespace {

std::vector<Field> fields() {
  return {
      {"measure.transfer.corpus", std::string("novels"),
       "a shipped corpus or a path, read with the tokenizer of the training text; its test split counts"},
      {"measure.transfer.sequences", int64_t{512}, "sequences of the test split", 1, 1 << 30},
      {.path = "measure.transfer.content",
       .fallback = std::string(),
       .doc = "hash of that text where it is your own, filled in like task.content",
       .later = true},
  };
}

void complete(Settings& settings) {
  const std::string corpus = text::absolute_path(settings.text("measure.transfer.corpus"));
  settings.set("measure.transfer.corpus", corpus);
  if (settings.text("measure.transfer.content").empty())
    settings.set("measure.transfer.content", text::content_of("", corpus));
}

// The task with the other text's test split.
std::unique_ptr<Task> elsewhere(const MeasureInput& in) {
  expect_config(in.settings.has("task.test_corpus"), "[transfer] a run on text expected: got task.name={}",
                in.settings.text("task.name"));
  Settings settings = in.settings;
  settings.set("task.test_corpus", in.settings.text("measure.transfer.corpus"));
  settings.set("task.content", in.settings.text("measure.transfer.content"));
  return find_task(in.settings.text("task.name")).make(settings);
}

double plan(const MeasureInput& in) {
  elsewhere(in);
  return in.pass_flops(static_cast<double>(in.settings.integer("measure.transfer.sequences")));
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const auto task = elsewhere(in);
  const Evaluation e =
      evaluate(in.model, *task, Split::test, in.seed, in.settings.integer("measure.transfer.sequences"),
               in.settings.integer("eval.batch"));
  out = describe(e, *task, 0);
  out.scalar("perplexity", std::exp(e.loss()), "exp of the loss");
}

}  // namespace

const MeasureEntry transfer_measure = {
    "transfer", "the test results of a run on text of another corpus (C5)", fields, run, plan, complete};

}  // namespace copylab
