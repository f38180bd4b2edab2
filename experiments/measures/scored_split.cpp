// ScoredSplit: forward passes over a split with a probe on the hidden states, and one-dimensional mixtures.
#include "experiments/measures/scored_split.h"

#include <algorithm>
#include <cmath>

#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/split_walk.h"

namespace copylab {
namespace {

class HiddenProbe : public Probe {
 public:
  bool wants(const std::string& name) const override { return name == "hidden"; }
  void take(const std::string&, const Tensor& value) override { hidden = value; }
  Tensor hidden;
};

// Positions first..end-1 of a row of `width` numbers a position, added to `to`.
template <class To, class From>
void append(std::vector<To>& to, const std::vector<From>& from, int64_t first, int64_t end,
            int64_t width = 1) {
  if (from.empty()) return;
  to.insert(to.end(), from.begin() + first * width, from.begin() + end * width);
}

void append_all(ScoredSplit& to, const ScoredSplit& from) {
  const auto all = [](auto& a, const auto& b) { a.insert(a.end(), b.begin(), b.end()); };
  all(to.tokens, from.tokens);
  all(to.targets, from.targets);
  all(to.segment, from.segment);
  all(to.slice, from.slice);
  all(to.nll, from.nll);
  all(to.hidden, from.hidden);
}

}  // namespace

Matrix ScoredSplit::states(int64_t sequence, int64_t first, int64_t end) const {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Floats>(hidden.data() + (sequence * length + first) * dim, end - first, dim)
      .cast<double>();
}

namespace {

int64_t sequences_scored(const MeasureInput& in, Split split) {
  return in.settings.integer(split == Split::test ? "eval.test_sequences" : "eval.sequences");
}

ScoredSplit score(const MeasureInput& in, Split split) {
  const int64_t sequences = sequences_scored(in, split), dim = in.model.dim(), lanes = in.task.lanes();
  std::vector<ScoredSplit> lane(lanes);
  ScoredSplit out;
  Tape tape(in.backend);
  SplitWalk walk(in.task, split, in.seed, sequences, in.settings.integer("eval.batch"));
  while (walk.next()) {
    const Batch& batch = walk.batch();
    HiddenProbe probe;
    tape.begin({.record = false, .training = false, .probe = &probe});
    const nn::HeadOutput result = in.model.forward(tape, walk.input(tape));
    const std::vector<double> of_labels = values_of(in.backend, result.nll);
    std::vector<double> nll;
    size_t next = 0;
    for (const int32_t target : batch.targets) nll.push_back(target >= 0 ? of_labels[next++] : 0.0);
    const std::vector<double> hidden = values_of(in.backend, probe.hidden);
    for (int64_t row = 0; row < batch.rows; ++row) {
      ScoredSplit& to = lanes > 0 ? lane[row] : out;
      const int64_t first = row * batch.length, end = (row + 1) * batch.length;
      append(to.tokens, batch.tokens, first, end);
      append(to.targets, batch.targets, first, end);
      append(to.segment, batch.segment, first, end);
      append(to.slice, batch.slice, first, end);
      append(to.nll, nll, first, end);
      append(to.hidden, hidden, first, end, dim);
    }
  }
  for (const ScoredSplit& one : lane) append_all(out, one);
  out.sequences = lanes > 0 ? lanes : walk.sequences();
  out.length = static_cast<int64_t>(out.tokens.size()) / out.sequences;
  out.dim = dim;
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
