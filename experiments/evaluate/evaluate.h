// Evaluation: loss and accuracy of a model on sequences of a task, in each inference mode of its head.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/nn/model.h"
#include "experiments/measures/measure.h"
#include "tasks/task.h"

namespace copylab {

struct ModeSums {
  int64_t correct = 0;  // labels that are the most probable token
  double nll = 0;       // over the labels where it is finite
};

// Sums over labelled positions: counts as integers, the rest in double in the order of the sequences, divided
// once. Batching can change no more than the last bits of a single position's -log p.
struct LabelSums {
  int64_t labels = 0;
  ModeSums natural, no_copy, force_copy;
  int64_t reachable = 0;  // labels with a finite force_copy loss: the target is among the positions
  double gate = 0, sink = 0;
};

struct Evaluation {
  LabelSums all;
  std::vector<LabelSums> slices;  // by slice of the task
  bool pointer = false;           // the head has one: no_copy, force_copy, gate and sink mean something
  int64_t bytes = 0;              // of text that the labels stand for; 0: the task counts none

  double loss() const { return all.natural.nll / static_cast<double>(all.labels); }
  double accuracy() const {
    return static_cast<double>(all.natural.correct) / static_cast<double>(all.labels);
  }
};

// Sequences 0..sequences-1 of the split, `batch` at a time, as SplitWalk goes over them. `between` runs
// between batches and may throw.
Evaluation evaluate(const nn::Model& model, const Task& task, Split split, uint64_t seed, int64_t sequences,
                    int64_t batch, const std::function<void()>& between = {});

// As named arrays of /eval/test: loss, accuracy, …_by_slice, and for a pointer no_copy_loss, gate, … With the
// task's ceiling and chance, and its facts about `training_sequences` as budget_<name>.
MeasureOutput describe(const Evaluation& evaluation, const Task& task, int64_t training_sequences);

// A float32 or float64 tensor as doubles on the host; empty where it is undefined.
std::vector<double> values_of(const Backend& backend, const Tensor& t);

}  // namespace copylab
