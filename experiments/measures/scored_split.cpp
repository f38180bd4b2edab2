// ScoredSplit: forward passes over a split with a probe on the hidden states, and one-dimensional mixtures.
#include "experiments/measures/scored_split.h"

#include <algorithm>
#include <cmath>

#include "experiments/evaluate/evaluate.h"
#include "experiments/train/trainer.h"

namespace copylab {
namespace {

class HiddenProbe : public Probe {
 public:
  bool wants(const std::string& name) const override { return name == "hidden"; }
  void take(const std::string&, const Tensor& value) override { hidden = value; }
  Tensor hidden;
};

void append(std::vector<int32_t>& to, const std::vector<int32_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Matrix ScoredSplit::states(int64_t sequence) const {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Floats>(hidden.data() + sequence * length * dim, length, dim).cast<double>();
}

namespace {

int64_t sequences_scored(const MeasureInput& in, Split split) {
  return in.settings.integer(split == Split::test ? "eval.test_sequences" : "eval.sequences");
}

ScoredSplit score(const MeasureInput& in, Split split) {
  ScoredSplit out;
  out.sequences = sequences_scored(in, split);
  out.dim = in.model.dim();
  const int64_t rows = in.settings.integer("eval.batch");
  Tape tape(in.backend);
  for (int64_t first = 0; first < out.sequences; first += rows) {
    const Batch batch = sequences_of(in.task, split, in.seed, first, std::min(rows, out.sequences - first));
    out.length = batch.length;
    append(out.tokens, batch.tokens);
    append(out.targets, batch.targets);
    append(out.segment, batch.segment);
    append(out.slice, batch.slice);
    HiddenProbe probe;
    tape.begin({.record = false, .training = false, .probe = &probe});
    const nn::HeadOutput result = in.model.forward(tape, model_input(tape, batch));
    const std::vector<double> nll = values_of(in.backend, result.nll);
    size_t next = 0;
    for (const int32_t target : batch.targets) out.nll.push_back(target >= 0 ? nll[next++] : 0.0);
    dispatch_float(probe.hidden.dtype(), "measure", [&](auto tag) {
      const auto hidden = to_host<decltype(tag)>(in.backend, probe.hidden);
      out.hidden.insert(out.hidden.end(), hidden.begin(), hidden.end());
    });
  }
  return out;
}

}  // namespace

std::shared_ptr<const ScoredSplit> score_split(const MeasureInput& in, Split split) {
  if (!in.cache) return std::make_shared<const ScoredSplit>(score(in, split));
  in.cache->used = true;
  auto& kept = in.cache->splits[split];
  if (!kept) kept = std::make_shared<const ScoredSplit>(score(in, split));
  return kept;
}

double plan_splits(const MeasureInput& in) {
  return in.pass_flops(
      static_cast<double>(sequences_scored(in, Split::valid) + sequences_scored(in, Split::test)));
}

double best_mixture_weight(const std::vector<double>& p, const std::vector<double>& q) {
  expect(p.size() == q.size(), "best_mixture_weight", "as many p as q expected: got {}, {}", p.size(),
         q.size());
  const auto slope = [&](double w) {
    double sum = -1.0 / (1.0 - w);
    for (size_t i = 0; i < p.size(); ++i)
      if (p[i] > 0 || q[i] > 0) sum += (q[i] - p[i]) / ((1.0 - w) * p[i] + w * q[i]);
    return sum;
  };
  double low = 0.0, high = 1.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (slope(middle) > 0 ? low : high) = middle;
  }
  return low;
}

void report_losses(const ScoredSplit& test, const std::vector<double>& mixed, const Task& task,
                   MeasureOutput& out) {
  const std::vector<std::string> slices = task.slices();
  struct Sums {
    double labels = 0, base = 0, mixed = 0;
  };
  Sums all;
  std::vector<Sums> by_slice(slices.size());
  for (size_t i = 0; i < mixed.size(); ++i) {
    if (!test.labelled(static_cast<int64_t>(i))) continue;
    const auto add = [&](Sums& s) {
      s.labels += 1;
      s.base += test.nll[i];
      s.mixed += mixed[i];
    };
    add(all);
    if (!test.slice.empty()) add(by_slice.at(test.slice[i]));
  }
  const auto write = [&](const std::string& name, const std::string& doc, double (*of)(const Sums&)) {
    out.scalar(name, of(all) / all.labels, doc + ", nats");
    if (slices.empty()) return;
    std::vector<double> values;
    for (const Sums& s : by_slice) values.push_back(s.labels > 0 ? of(s) / s.labels : std::nan(""));
    out.array(name + "_by_slice", values, {static_cast<int64_t>(values.size())}, {"slice"},
              doc + ", within each slice, nats");
  };
  if (!slices.empty()) out.label("slice", slices);
  write("loss", "mean -log p of the labels with the baseline", [](const Sums& s) { return s.mixed; });
  write("base_loss", "mean -log p of the labels of the model alone", [](const Sums& s) { return s.base; });
  write("gain", "base_loss - loss", [](const Sums& s) { return s.base - s.mixed; });
}

}  // namespace copylab
