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

ScoredSplit score_split(const MeasureInput& in, Split split) {
  ScoredSplit out;
  out.sequences = in.settings.integer(split == Split::test ? "eval.test_sequences" : "eval.sequences");
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
  const auto write = [&](const Sums& s, const std::string& suffix, const std::string& where) {
    if (s.labels == 0) return;
    out.scalar("loss" + suffix, s.mixed / s.labels,
               "mean -log p of the labels with the baseline" + where + ", nats");
    out.scalar("base_loss" + suffix, s.base / s.labels,
               "mean -log p of the labels of the model alone" + where + ", nats");
    out.scalar("gain" + suffix, (s.base - s.mixed) / s.labels, "base_loss - loss" + where + ", nats");
  };
  write(all, "", "");
  for (size_t s = 0; s < slices.size(); ++s) write(by_slice[s], "_" + slices[s], ", slice " + slices[s]);
}

}  // namespace copylab
