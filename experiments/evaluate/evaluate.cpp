// Evaluation: forward passes without recording, sums on the host.
#include "experiments/evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "experiments/evaluate/split_walk.h"

namespace copylab {
namespace {

// What a head says of one label in one mode.
struct ModeOutput {
  std::vector<double> nll;
  std::vector<int32_t> argmax;

  ModeOutput(const Backend& backend, const Tensor& losses, const Tensor& best)
      : nll(values_of(backend, losses)), argmax(to_host<int32_t>(backend, best)) {}
  void add_to(ModeSums& sums, size_t label, int32_t target) const {
    if (std::isfinite(nll[label])) sums.nll += nll[label];
    sums.correct += argmax[label] == target;
  }
};

void add_batch(Tape& tape, const nn::HeadOutput& out, const Batch& batch, Evaluation& sums) {
  const Backend& backend = tape.backend();
  sums.pointer = out.gate.defined();
  const ModeOutput natural(backend, out.nll, out.argmax);
  std::optional<ModeOutput> no_copy, force_copy;
  std::vector<double> gate, sink;
  if (sums.pointer) {
    no_copy.emplace(backend, out.lm_nll, out.lm_argmax);
    force_copy.emplace(backend, out.copy_nll, out.copy_argmax);
    gate = values_of(backend, out.gate);
    sink = values_of(backend, out.sink);
  }

  size_t label = 0;  // labelled positions are numbered as the outputs are
  for (size_t i = 0; i < batch.targets.size(); ++i) {
    const int32_t target = batch.targets[i];
    if (target < 0) continue;
    expect(std::isfinite(natural.nll[label]), "evaluate", "the loss of a label is not finite: got {}",
           natural.nll[label]);
    const auto add_to = [&](LabelSums& to) {
      ++to.labels;
      natural.add_to(to.natural, label, target);
      if (!sums.pointer) return;
      no_copy->add_to(to.no_copy, label, target);
      force_copy->add_to(to.force_copy, label, target);
      to.reachable += std::isfinite(force_copy->nll[label]);
      to.gate += gate[label];
      if (!sink.empty()) to.sink += sink[label];
    };
    add_to(sums.all);
    if (!batch.slice.empty()) add_to(sums.slices.at(batch.slice[i]));
    if (!batch.bytes.empty()) sums.bytes += batch.bytes[i];
    ++label;
  }
}

}  // namespace

std::vector<double> values_of(const Backend& backend, const Tensor& t) {
  if (!t) return {};
  std::vector<double> values(t.size());
  dispatch_float(t.dtype(), "evaluate", [&](auto tag) {
    const auto host = to_host<decltype(tag)>(backend, t);
    std::copy(host.begin(), host.end(), values.begin());
  });
  return values;
}

Evaluation evaluate(const nn::Model& model, const Task& task, Split split, uint64_t seed, int64_t sequences,
                    int64_t batch_rows, const std::function<void()>& between) {
  Evaluation sums;
  sums.slices.resize(task.slices().size());
  Tape tape(model.parameters().backend());
  SplitWalk walk(task, split, seed, sequences, batch_rows);
  while (walk.next()) {
    if (between) between();
    if (!walk.labelled()) continue;
    tape.begin({.record = false, .training = false});
    nn::ModelInput in = walk.input(tape);
    in.want_argmax = true;
    add_batch(tape, model.forward(tape, in), walk.batch(), sums);
  }
  expect(sums.all.labels > 0, "evaluate", "no position of {} {} sequences has a label", sequences,
         name_of(split));
  return sums;
}

namespace {

struct Statistic {
  const char* name;
  double (*of)(const LabelSums&);
  const char* doc;
};

double per_label(double sum, const LabelSums& s) {
  return sum / static_cast<double>(s.labels);
}

constexpr Statistic kOfEveryHead[] = {
    {"loss", [](const LabelSums& s) { return per_label(s.natural.nll, s); },
     "mean -log p of the labels, nats"},
    {"accuracy", [](const LabelSums& s) { return per_label(static_cast<double>(s.natural.correct), s); },
     "share of labels that are the most probable token"},
};
constexpr Statistic kOfPointers[] = {
    {"no_copy_loss", [](const LabelSums& s) { return per_label(s.no_copy.nll, s); },
     "loss of the LM head alone, nats"},
    {"no_copy_accuracy",
     [](const LabelSums& s) { return per_label(static_cast<double>(s.no_copy.correct), s); },
     "accuracy of the LM head alone"},
    {"force_copy_accuracy",
     [](const LabelSums& s) { return per_label(static_cast<double>(s.force_copy.correct), s); },
     "accuracy of the pointer alone"},
    {"force_copy_reachable",
     [](const LabelSums& s) { return per_label(static_cast<double>(s.reachable), s); },
     "share of labels that are among the positions to point at"},
    {"force_copy_loss",
     [](const LabelSums& s) {
       return s.reachable ? s.force_copy.nll / static_cast<double>(s.reachable) : std::nan("");
     },
     "loss of the pointer alone over the reachable labels, nats"},
    {"gate", [](const LabelSums& s) { return per_label(s.gate, s); },
     "mean share of probability offered to the pointer"},
    {"sink", [](const LabelSums& s) { return per_label(s.sink, s); }, "mean weight of the sink"},
};

}  // namespace

MeasureOutput describe(const Evaluation& e, const Task& task, int64_t training_sequences) {
  MeasureOutput out;
  const std::vector<std::string> slices = task.slices();
  const auto add = [&](const Statistic& statistic) {
    out.scalar(statistic.name, statistic.of(e.all), statistic.doc);
    if (slices.empty()) return;
    std::vector<double> values;  // NaN for a slice without labels
    for (const LabelSums& slice : e.slices)
      values.push_back(slice.labels ? statistic.of(slice) : std::nan(""));
    out.array(statistic.name + std::string("_by_slice"), values, {static_cast<int64_t>(values.size())},
              {"slice"}, statistic.doc + std::string(", within each slice"));
  };
  for (const Statistic& statistic : kOfEveryHead) add(statistic);
  if (e.pointer)
    for (const Statistic& statistic : kOfPointers) add(statistic);

  const double labels = static_cast<double>(e.all.labels);
  out.scalar("labels", labels, "labelled positions of the test sequences");
  if (!slices.empty()) {
    std::vector<double> counts;
    for (const LabelSums& slice : e.slices) counts.push_back(static_cast<double>(slice.labels));
    out.label("slice", slices);
    out.array("labels_by_slice", counts, {static_cast<int64_t>(counts.size())}, {"slice"},
              "labelled positions of each slice");
  }
  if (e.bytes > 0) {
    const double bytes = static_cast<double>(e.bytes);
    out.scalar("bits_per_byte", e.all.natural.nll / std::log(2.0) / bytes,
               "-log2 p of the labels over the bytes of text that they stand for");
    out.scalar("bytes_per_label", bytes / labels, "bytes of text that a label stands for, mean");
  }
  out.scalar("ceiling", task.ceiling(), "expected accuracy of the best possible predictor");
  out.scalar("chance", task.chance(), "expected accuracy of a uniform guess");
  for (const auto& [name, value] : task.budget(training_sequences))
    out.scalar("budget_" + name, value, "of the training sequences: " + name);
  return out;
}

}  // namespace copylab
