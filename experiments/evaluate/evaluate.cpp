// Evaluation: forward passes without recording, sums on the host.
#include "experiments/evaluate/evaluate.h"

#include <algorithm>
#include <cmath>

#include "experiments/train/trainer.h"

namespace copylab {
namespace {

std::vector<double> values_of(const Backend& backend, const Tensor& t) {
  std::vector<double> values(t.size());
  dispatch_float(t.dtype(), "evaluate", [&](auto tag) {
    const auto host = to_host<decltype(tag)>(backend, t);
    std::copy(host.begin(), host.end(), values.begin());
  });
  return values;
}

void add_batch(Tape& tape, const nn::HeadOutput& out, const Batch& batch, Evaluation& sums) {
  const Backend& backend = tape.backend();
  std::vector<size_t> rows;  // labelled positions, in the order of the outputs
  for (size_t i = 0; i < batch.targets.size(); ++i)
    if (batch.targets[i] >= 0) rows.push_back(i);

  const auto add_mode = [&](const Tensor& nll, const Tensor& argmax, ModeSums& mode) {
    const std::vector<double> losses = values_of(backend, nll);
    const std::vector<int32_t> best = to_host<int32_t>(backend, argmax);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (std::isfinite(losses[i])) mode.nll += losses[i];
      mode.correct += best[i] == batch.targets[rows[i]];
    }
    return losses;
  };
  const std::vector<double> losses = add_mode(out.nll, out.argmax, sums.natural);
  for (double nll : losses)
    expect(std::isfinite(nll), "evaluate", "the loss of a label is not finite: got {}", nll);
  sums.labels += static_cast<int64_t>(rows.size());

  sums.pointer = out.gate.defined();
  if (sums.pointer) {
    add_mode(out.lm_nll, out.lm_argmax, sums.no_copy);
    for (double nll : add_mode(out.copy_nll, out.copy_argmax, sums.force_copy))
      sums.reachable += std::isfinite(nll);
    for (double gate : values_of(backend, out.gate)) sums.gate += gate;
    if (out.sink)
      for (double sink : values_of(backend, out.sink)) sums.sink += sink;
  }
  if (!batch.slice.empty()) {
    const std::vector<int32_t> best = to_host<int32_t>(backend, out.argmax);
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t slice = batch.slice[rows[i]];
      ++sums.slice_labels.at(slice);
      sums.slice_correct[slice] += best[i] == batch.targets[rows[i]];
      sums.slice_nll[slice] += losses[i];
    }
  }
}

}  // namespace

Batch sequences_of(const Task& task, Split split, uint64_t seed, int64_t first, int64_t count) {
  Batch all;
  for (int64_t n = first; n < first + count; ++n) {
    const Batch one = task.batch(split, seed, n, 1);
    const auto append = [](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(all.tokens, one.tokens);
    append(all.targets, one.targets);
    append(all.segment, one.segment);
    append(all.slice, one.slice);
    all.length = one.length;
  }
  all.rows = count;
  return all;
}

Evaluation evaluate(const nn::Model& model, const Task& task, Split split, uint64_t seed, int64_t sequences,
                    int64_t batch_rows, const std::function<void()>& between) {
  Evaluation sums;
  const size_t slices = task.slices().size();
  sums.slice_labels.assign(slices, 0);
  sums.slice_correct.assign(slices, 0);
  sums.slice_nll.assign(slices, 0.0);
  Tape tape(model.parameters().backend());
  for (int64_t first = 0; first < sequences; first += batch_rows) {
    if (between) between();
    const Batch batch = sequences_of(task, split, seed, first, std::min(batch_rows, sequences - first));
    if (std::all_of(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t < 0; })) continue;
    Tape::Options options;
    options.record = false;
    options.training = false;
    tape.begin(options);
    nn::HeadInput in = head_input(tape, batch);
    in.want_argmax = true;
    add_batch(tape, model.forward(tape, in), batch, sums);
  }
  expect(sums.labels > 0, "evaluate", "no position of {} {} sequences has a label", sequences,
         name_of(split));
  return sums;
}

MeasureOutput describe(const Evaluation& e, const Task& task, int64_t training_sequences) {
  MeasureOutput out;
  const double labels = static_cast<double>(e.labels);
  out.scalar("loss", e.loss(), "mean -log p of the labels, nats");
  out.scalar("accuracy", e.accuracy(), "share of labels that are the most probable token");
  out.scalar("labels", labels, "labelled positions of the test sequences");
  if (e.pointer) {
    const auto share = [&](int64_t n) { return static_cast<double>(n) / labels; };
    out.scalar("no_copy_loss", e.no_copy.nll / labels, "loss of the LM head alone, nats");
    out.scalar("no_copy_accuracy", share(e.no_copy.correct), "accuracy of the LM head alone");
    out.scalar("force_copy_accuracy", share(e.force_copy.correct), "accuracy of the pointer alone");
    out.scalar("force_copy_reachable", share(e.reachable),
               "share of labels that are among the positions to point at");
    out.scalar("force_copy_loss",
               e.reachable ? e.force_copy.nll / static_cast<double>(e.reachable) : std::nan(""),
               "loss of the pointer alone over the reachable labels, nats");
    out.scalar("gate", e.gate / labels, "mean share of probability offered to the pointer");
    out.scalar("sink", e.sink / labels, "mean weight of the sink");
  }
  const std::vector<std::string> slices = task.slices();
  if (!slices.empty()) {
    const int64_t n = static_cast<int64_t>(slices.size());
    std::vector<double> counts, accuracy, loss;  // NaN for a slice without labels
    for (int64_t s = 0; s < n; ++s) {
      const double count = static_cast<double>(e.slice_labels[s]);
      counts.push_back(count);
      accuracy.push_back(count > 0 ? static_cast<double>(e.slice_correct[s]) / count : std::nan(""));
      loss.push_back(count > 0 ? e.slice_nll[s] / count : std::nan(""));
    }
    out.label("slice", slices);
    out.array("labels_by_slice", counts, {n}, {"slice"}, "labelled positions of each slice");
    out.array("accuracy_by_slice", accuracy, {n}, {"slice"}, "accuracy within each slice");
    out.array("loss_by_slice", loss, {n}, {"slice"}, "mean -log p within each slice, nats");
  }
  out.scalar("ceiling", task.ceiling(), "expected accuracy of the best possible predictor");
  out.scalar("chance", task.chance(), "expected accuracy of a uniform guess");
  for (const auto& [name, value] : task.budget(training_sequences))
    out.scalar("budget_" + name, value, "of the training sequences: " + name);
  return out;
}

}  // namespace copylab
