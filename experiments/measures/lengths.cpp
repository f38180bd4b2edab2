// lengths: a run's task at other lengths, levels and places of meta-tokens than it was trained on.
#include "experiments/measures/lengths.h"

#include <cmath>

#include "experiments/measures/answers.h"
#include "experiments/measures/statistics.h"
#include "experiments/measures/task_cells.h"

namespace copylab {
namespace {

std::vector<Field> fields() {
  return {
      {"measure.lengths.lengths", std::vector<int64_t>{},
       "values of task.length; none: once, twice, three and four times the run's", 1, 1 << 20},
      {"measure.lengths.levels", std::string(),
       "values of task.level, separated by commas; empty: the run's, or one nameless level"},
      {"measure.lengths.pauses", std::string(),
       "values of task.pause, separated by commas; empty: the run's, or one nameless place"},
      {"measure.lengths.sequences", int64_t{512}, "test sequences of each cell", 1, 1 << 30},
  };
}

TaskCells cells_of(const MeasureInput& in) {
  std::vector<int64_t> lengths = in.settings.integers("measure.lengths.lengths");
  if (lengths.empty() && in.settings.has("task.length"))
    for (int64_t n = 1; n <= 4; ++n) lengths.push_back(n * in.settings.integer("task.length"));
  return TaskCells(in, "lengths", in.settings.text("measure.lengths.levels"),
                   in.settings.text("measure.lengths.pauses"), lengths);
}

double plan(const MeasureInput& in) {
  const TaskCells all = cells_of(in);
  longer_model(in, "lengths", all.longest(), false);
  return all.flops(in, in.settings.integer("measure.lengths.sequences"));
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const TaskCells all = cells_of(in);
  const auto model = longer_model(in, "lengths", all.longest(), true);
  struct Column {
    const char *name, *doc;
    std::vector<double> values = {};
  };
  Column token{"token_accuracy", "share of labels that are the most probable token"},
      answer{"answer_accuracy", "share of sequences of which every label is the most probable token"},
      low{"answer_low", "lower end of Wilson's 95 % interval of answer_accuracy over sequences"},
      high{"answer_high", "its upper end"}, loss{"loss", "mean -log p of the labels, nats"},
      labels{"labels", "labelled positions"}, answers{"answers", "sequences with labels"};
  for (const TaskCells::Cell& cell : all.cells) {
    const Answers a =
        cell.task ? answers_of(*model, *cell.task, in.seed, in.settings.integer("measure.lengths.sequences"),
                               in.settings.integer("eval.batch"))
                  : Answers();
    out.scalar("accuracy_" + cell.name, a.answer_accuracy(), answer.doc);
    const auto interval = wilson_interval(a.right_sequences(), static_cast<int64_t>(a.right.size()));
    token.values.push_back(a.token_accuracy());
    answer.values.push_back(a.answer_accuracy());
    low.values.push_back(interval.first);
    high.values.push_back(interval.second);
    loss.values.push_back(a.labels ? a.nll / static_cast<double>(a.labels) : std::nan(""));
    labels.values.push_back(static_cast<double>(a.labels));
    answers.values.push_back(static_cast<double>(a.right.size()));
  }
  const std::vector<int64_t> shape = {static_cast<int64_t>(all.levels.size()),
                                      static_cast<int64_t>(all.pauses.size()),
                                      static_cast<int64_t>(all.lengths.size())};
  for (Column* column : {&token, &answer, &low, &high, &loss, &labels, &answers})
    out.array(column->name, column->values, shape, {"level", "pause", "length"}, column->doc);
  out.label("level", all.levels);
  out.label("pause", all.pauses);
  out.coordinate("length", std::vector<double>(all.lengths.begin(), all.lengths.end()));
}

}  // namespace

const MeasureEntry lengths_measure = {
    "lengths", "accuracy on the run's task at other lengths, levels and places of meta-tokens (M5, M7, M23)",
    fields, run, plan};

}  // namespace copylab
