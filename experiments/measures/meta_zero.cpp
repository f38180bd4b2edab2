// meta_zero: a run's answers without the positional encoding, and without the embedding, of its meta-tokens.
#include "experiments/measures/meta_zero.h"

#include "experiments/measures/answers.h"
#include "experiments/measures/task_cells.h"

namespace copylab {
namespace {

std::vector<Field> fields() {
  return {
      {"measure.meta_zero.lengths", std::vector<int64_t>{}, "values of task.length; none: the run's", 1,
       1 << 20},
      {"measure.meta_zero.levels", std::string(),
       "values of task.level, separated by commas; empty: the run's"},
      {"measure.meta_zero.sequences", int64_t{512}, "test sequences of each cell and mode", 1, 1 << 30},
  };
}

TaskCells cells_of(const MeasureInput& in) {
  return TaskCells(in, "meta_zero", in.settings.text("measure.meta_zero.levels"), "",
                   in.settings.integers("measure.meta_zero.lengths"));
}

double plan(const MeasureInput& in) {
  const TaskCells all = cells_of(in);
  longer_model(in, "meta_zero", all.longest(), false);
  return 3 * all.flops(in, in.settings.integer("measure.meta_zero.sequences"));
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const TaskCells all = cells_of(in);
  const auto model = longer_model(in, "meta_zero", all.longest(), true);
  // A batch without meta-tokens has nothing to take away: all modes are then the first.
  const std::vector<std::pair<std::string, ChangeInput>> modes = {
      {"full", {}},
      {"no_position", [](Tape&, const Batch&, nn::ModelInput& x) { x.intervention.zero_position = x.meta; }},
      {"no_embedding",
       [](Tape&, const Batch&, nn::ModelInput& x) { x.intervention.zero_embedding = x.meta; }},
  };
  std::vector<std::string> names, cells;
  std::vector<Answers> found;
  for (const TaskCells::Cell& cell : all.cells) cells.push_back(cell.name);
  for (const auto& [name, change] : modes) {
    names.push_back(name);
    for (const TaskCells::Cell& cell : all.cells)
      found.push_back(cell.task ? answers_of(*model, *cell.task, in.seed,
                                             in.settings.integer("measure.meta_zero.sequences"),
                                             in.settings.integer("eval.batch"), change)
                                : Answers());
  }
  report_modes(names, cells, found,
               {static_cast<int64_t>(all.levels.size()), static_cast<int64_t>(all.lengths.size())},
               {"level", "length"}, out);
  out.label("level", all.levels);
  out.coordinate("length", std::vector<double>(all.lengths.begin(), all.lengths.end()));
}

}  // namespace

const MeasureEntry meta_zero_measure = {
    "meta_zero", "accuracy without positions or embeddings of meta-tokens, McNemar's test (M14, M15)", fields,
    run, plan};

}  // namespace copylab
