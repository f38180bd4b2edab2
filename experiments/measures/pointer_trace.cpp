// PointerTrace: one forward pass a sequence, with a probe for the pointer's weights.
#include "experiments/measures/pointer_trace.h"

#include <algorithm>

#include "experiments/train/trainer.h"

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

// Values at labelled positions, spread over all positions.
template <class To>
std::vector<To> spread(const Backend& backend, const Tensor& values, const std::vector<int64_t>& labelled,
                       int64_t length) {
  std::vector<To> out(length);
  const auto put = [&](const auto& host) {
    for (size_t i = 0; i < labelled.size(); ++i) out[labelled[i]] = static_cast<To>(host[i]);
  };
  if (values.dtype() == DType::i32)
    put(to_host<int32_t>(backend, values));
  else
    dispatch_float(values.dtype(), "measure",
                   [&](auto tag) { put(to_host<decltype(tag)>(backend, values)); });
  return out;
}

}  // namespace

void for_each_trace(const MeasureInput& in, const nn::Model& model, int64_t sequences,
                    const std::function<void(const PointerTrace&)>& f) {
  Tape tape(in.backend);
  for (int64_t n = 0; n < sequences; ++n) {
    const Batch batch = in.task.batch(Split::test, in.seed, n, 1);
    PointerTrace trace;
    trace.tokens = batch.tokens;
    trace.targets = batch.targets;
    trace.segment = batch.segment.empty() ? std::vector<int32_t>(batch.length, 0) : batch.segment;
    std::vector<int64_t> labelled;
    for (int64_t t = 0; t < batch.length; ++t)
      if (batch.targets[t] >= 0) labelled.push_back(t);
    if (labelled.empty()) continue;

    Collect collect(in.backend);
    tape.begin({.record = false, .training = false, .probe = &collect});
    nn::ModelInput input = model_input(tape, batch);
    input.want_argmax = true;
    const nn::HeadOutput out = model.forward(tape, input);
    const auto numbers = [&](const Tensor& x) {
      return x ? spread<double>(in.backend, x, labelled, batch.length) : std::vector<double>();
    };
    const auto ids = [&](const Tensor& x) {
      return x ? spread<int32_t>(in.backend, x, labelled, batch.length) : std::vector<int32_t>();
    };
    trace.nll = numbers(out.nll);
    trace.lm_nll = numbers(out.lm_nll);
    trace.copy_nll = numbers(out.copy_nll);
    trace.best = ids(out.argmax);
    trace.lm_best = ids(out.lm_argmax);
    trace.copy_best = ids(out.copy_argmax);
    trace.gate = numbers(out.gate);
    trace.sink = numbers(out.sink);
    trace.log_copy = numbers(out.log_copy);
    trace.h = std::move(collect.h);
    trace.weights = std::move(collect.weights);
    f(trace);
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
