// Answers: which labels of test sequences a model gets right, each and all of a sequence together.
#pragma once

#include <functional>
#include <vector>

#include "core/nn/model.h"
#include "experiments/measures/measure.h"
#include "tasks/task.h"

namespace copylab {

struct Answers {
  int64_t labels = 0, right_labels = 0;
  double nll = 0;           // sum of -log p over the labels, nats
  std::vector<bool> right;  // of each sequence that has labels: are all of them right?

  int64_t right_sequences() const;
  double token_accuracy() const;   // share of labels; NaN without any
  double answer_accuracy() const;  // share of sequences
};

// Changes what the model is given of a batch; arrays may live on the tape.
using ChangeInput = std::function<void(Tape& tape, const Batch& batch, nn::ModelInput& in)>;

// Of sequences 0..sequences-1 of the test split, `rows` at a time.
Answers answers_of(const nn::Model& model, const Task& task, uint64_t seed, int64_t sequences, int64_t rows,
                   const ChangeInput& change = {});

// The same sequences answered in several modes, of which the first is the model as it is, in one or more
// cells. `found` is (modes, cells), `shape` and `dims` are the cells' axes. Writes, each (mode, cells …):
//   token_accuracy, answer_accuracy, answer_low, answer_high (Wilson's 95 % interval)
//   gained, lost   sequences that are right in the mode alone, and in the first mode alone
//   p              of McNemar's exact test that these are equally likely
// and for each mode and cell the scalars accuracy_MODE and gain_MODE (answer_accuracy less that of the first
// mode), with the cell's name at the end if there is more than one.
void report_modes(const std::vector<std::string>& modes, const std::vector<std::string>& cells,
                  const std::vector<Answers>& found, std::vector<int64_t> shape,
                  std::vector<std::string> dims, MeasureOutput& out);

}  // namespace copylab
