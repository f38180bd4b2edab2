// PointerTrace: one forward pass a sequence, with a probe for the pointer's weights.
#include "experiments/measures/pointer_trace.h"

#include <algorithm>

#include "experiments/evaluate/split_walk.h"

namespace copylab {
namespace {

class Collect : public Probe {
 public:
  explicit Collect(const Backend& backend) : backend_(backend) {}
  bool wants(const std::string& name) const override {
    return name == "hidden" || name == "copy_head.weights";
  }
  void take(const std::string& name, const Tensor& value) override {
    const int64_t rows = value.size() / value.dim(value.shape().rank() - 1);
    (name == "hidden" ? h : weights) = host_matrix(backend_, value.reshape({rows, value.size() / rows}));
  }
  Matrix h, weights;

 private:
  const Backend& backend_;
};

// Of one sequence: where its labelled positions are, in the trace and among those of the batch.
struct Labels {
  std::vector<int64_t> places;
  int64_t first = 0;
};

// Values at labelled positions of a batch, those of a sequence spread over the positions of its trace.
template <class To>
std::vector<To> spread(const Backend& backend, const Tensor& values, const Labels& labels, int64_t length) {
  if (!values) return {};
  std::vector<To> out(length);
  const auto put = [&](const auto& host) {
    for (size_t i = 0; i < labels.places.size(); ++i)
      out[labels.places[i]] = static_cast<To>(host[labels.first + i]);
  };
  if (values.dtype() == DType::i32)
    put(to_host<int32_t>(backend, values));
  else
    dispatch_float(values.dtype(), "measure",
                   [&](auto tag) { put(to_host<decltype(tag)>(backend, values)); });
  return out;
}

// Row `row` of a batch, with `memory` positions of `before` in front.
PointerTrace trace_of(const Backend& backend, const Batch& batch, int64_t row, const nn::Carry& before,
                      int64_t memory, const Labels& labels, const nn::HeadOutput& out, const Matrix& h,
                      const Matrix& weights) {
  const int64_t length = batch.length, all = memory + length;
  PointerTrace trace;
  trace.tokens.assign(memory, -1);
  trace.segment.assign(all, 0);
  trace.targets.assign(memory, -1);
  trace.h = Matrix::Zero(all, h.cols());
  if (!before.empty() && memory > 0) {
    std::copy_n(before.tokens.begin() + row * memory, memory, trace.tokens.begin());
    trace.h.topRows(memory) =
        Eigen::Map<const Matrix>(before.states.data() + row * memory * before.dim, memory, before.dim);
  }
  for (int64_t i = 0; i < memory; ++i)
    if (trace.tokens[i] < 0) trace.segment[i] = -1;  // before the stream's start: out of reach
  const auto append = [&](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
    to.insert(to.end(), from.begin() + row * length, from.begin() + (row + 1) * length);
  };
  append(trace.tokens, batch.tokens);
  append(trace.targets, batch.targets);
  if (!batch.segment.empty())
    std::copy_n(batch.segment.begin() + row * length, length, trace.segment.begin() + memory);
  trace.h.bottomRows(length) = h.middleRows(row * length, length);

  const auto numbers = [&](const Tensor& x) { return spread<double>(backend, x, labels, all); };
  const auto ids = [&](const Tensor& x) { return spread<int32_t>(backend, x, labels, all); };
  trace.nll = numbers(out.nll);
  trace.lm_nll = numbers(out.lm_nll);
  trace.copy_nll = numbers(out.copy_nll);
  trace.best = ids(out.argmax);
  trace.lm_best = ids(out.lm_argmax);
  trace.copy_best = ids(out.copy_argmax);
  trace.gate = numbers(out.gate);
  trace.sink = numbers(out.sink);
  trace.log_copy = numbers(out.log_copy);
  if (weights.size() > 0) {
    trace.weights = Matrix::Zero(all, all);
    trace.weights.bottomRows(length) = weights.middleRows(row * length, length);
  }
  return trace;
}

}  // namespace

int64_t trace_length(const MeasureInput& in, const nn::Model& model) {
  return in.task.length() + (in.task.lanes() > 0 ? model.head().memory() : 0);
}

void for_each_trace(const MeasureInput& in, const nn::Model& model, int64_t sequences,
                    const std::function<void(const PointerTrace&)>& f) {
  Tape tape(in.backend);
  SplitWalk walk(in.task, Split::test, in.seed, sequences, 1);
  const int64_t memory = trace_length(in, model) - in.task.length();
  int64_t left = sequences;
  while (walk.next()) {
    const Batch& batch = walk.batch();
    Collect collect(in.backend);
    tape.begin({.record = false, .training = false, .probe = &collect});
    nn::ModelInput input = walk.input(tape);
    if (!walk.labelled()) continue;
    const nn::Carry before = input.carry ? *input.carry : nn::Carry();
    input.want_argmax = true;
    const nn::HeadOutput out = model.forward(tape, input);
    Labels labels;
    for (int64_t row = 0; row < batch.rows && left > 0; ++row, --left) {
      labels.first += static_cast<int64_t>(labels.places.size());
      labels.places.clear();
      for (int64_t t = 0; t < batch.length; ++t)
        if (batch.targets[row * batch.length + t] >= 0) labels.places.push_back(memory + t);
      if (labels.places.empty()) continue;
      f(trace_of(in.backend, batch, row, before, memory, labels, out, collect.h, collect.weights));
    }
  }
}

std::vector<int64_t> PointerReach::keys(const PointerTrace& trace, int64_t t) const {
  std::vector<int64_t> keys;
  const int64_t end = t - shift + (copy_self ? 1 : 0);
  for (int64_t j = window > 0 ? std::max<int64_t>(0, t - window + 1) : 0; j < end; ++j)
    if (trace.segment[j] == trace.segment[t]) keys.push_back(j);
  return keys;
}

PointerReach pointer_reach(const Settings& settings) {
  PointerReach reach;
  if (settings.has("head.window")) reach.window = settings.integer("head.window");
  if (settings.has("head.key_token")) reach.shift = settings.text("head.key_token") == "next" ? 1 : 0;
  if (settings.has("head.copy_self")) reach.copy_self = settings.flag("head.copy_self");
  return reach;
}

}  // namespace copylab
