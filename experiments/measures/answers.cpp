// Answers: forward passes over the test split, compared with the labels sequence by sequence.
#include "experiments/measures/answers.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/split_walk.h"
#include "experiments/measures/statistics.h"

namespace copylab {

int64_t Answers::right_sequences() const {
  return std::count(right.begin(), right.end(), true);
}

double Answers::token_accuracy() const {
  return labels ? static_cast<double>(right_labels) / static_cast<double>(labels) : std::nan("");
}

double Answers::answer_accuracy() const {
  return right.empty() ? std::nan("")
                       : static_cast<double>(right_sequences()) / static_cast<double>(right.size());
}

Answers answers_of(const nn::Model& model, const Task& task, uint64_t seed, int64_t sequences, int64_t rows,
                   const ChangeInput& change) {
  Answers answers;
  const Backend& backend = model.parameters().backend();
  Tape tape(backend);
  SplitWalk walk(task, Split::test, seed, sequences, rows);
  while (walk.next()) {
    if (!walk.labelled()) continue;
    const Batch& batch = walk.batch();
    tape.begin({.record = false, .training = false});
    nn::ModelInput in = walk.input(tape);
    in.want_argmax = true;
    if (change) change(tape, batch, in);
    const nn::HeadOutput out = model.forward(tape, in);
    const std::vector<double> nll = values_of(backend, out.nll);
    const auto argmax = to_host<int32_t>(backend, out.argmax);
    size_t label = 0;  // labelled positions are numbered as the outputs are
    for (int64_t row = 0; row < batch.rows; ++row) {
      const size_t before = label;
      bool all_right = true;
      for (int64_t i = row * batch.length; i < (row + 1) * batch.length; ++i) {
        if (batch.targets[i] < 0) continue;
        const bool right = argmax[label] == batch.targets[i];
        answers.right_labels += right;
        all_right &= right;
        answers.nll += nll[label++];
      }
      answers.labels += static_cast<int64_t>(label - before);
      if (label > before) answers.right.push_back(all_right);
    }
  }
  return answers;
}

void report_modes(const std::vector<std::string>& modes, const std::vector<std::string>& cells,
                  const std::vector<Answers>& found, std::vector<int64_t> shape,
                  std::vector<std::string> dims, MeasureOutput& out) {
  expect(found.size() == modes.size() * cells.size(), "report_modes", "{} x {} answers expected: got {}",
         modes.size(), cells.size(), found.size());
  std::vector<double> token, answer, low, high, gained, lost, p;
  for (size_t i = 0; i < found.size(); ++i) {
    const Answers &own = found[i], &first = found[i % cells.size()];
    expect(own.right.size() == first.right.size(), "report_modes",
           "{} sequences expected in each mode: got {}", first.right.size(), own.right.size());
    int64_t more = 0, fewer = 0;
    for (size_t n = 0; n < own.right.size(); ++n) {
      more += own.right[n] && !first.right[n];
      fewer += !own.right[n] && first.right[n];
    }
    const auto interval = wilson_interval(own.right_sequences(), static_cast<int64_t>(own.right.size()));
    token.push_back(own.token_accuracy());
    answer.push_back(own.answer_accuracy());
    low.push_back(interval.first);
    high.push_back(interval.second);
    gained.push_back(static_cast<double>(more));
    lost.push_back(static_cast<double>(fewer));
    p.push_back(mcnemar(more, fewer));
    const std::string name =
        modes[i / cells.size()] + (cells.size() > 1 ? "_" + cells[i % cells.size()] : std::string());
    out.scalar("accuracy_" + name, own.answer_accuracy(), "share of sequences of which every label is right");
    if (i >= cells.size())
      out.scalar("gain_" + name, own.answer_accuracy() - first.answer_accuracy(),
                 "that less the first mode's");
  }
  shape.insert(shape.begin(), static_cast<int64_t>(modes.size()));
  dims.insert(dims.begin(), "mode");
  out.label("mode", modes);
  const auto write = [&](const char* name, const std::vector<double>& values, const char* doc) {
    out.array(name, values, shape, dims, doc);
  };
  write("token_accuracy", token, "share of labels that are the most probable token");
  write("answer_accuracy", answer, "share of sequences of which every label is the most probable token");
  write("answer_low", low, "lower end of Wilson's 95 % interval of answer_accuracy over sequences");
  write("answer_high", high, "its upper end");
  write("gained", gained, "sequences that are right in this mode and not in the first");
  write("lost", lost, "sequences that are right in the first mode and not in this one");
  write("p", p, "McNemar's exact test, two-sided: are gained and lost equally likely?");
  out.scalar("sequences", static_cast<double>(found.front().right.size()), "sequences of each cell");
}

}  // namespace copylab
