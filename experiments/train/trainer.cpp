// Trainer: forward, backward, clip, step.
#include "experiments/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "core/ops/reduce.h"

namespace copylab {

double meta_share(const Task& task) {
  if (task.lanes() > 0) return 0;  // streams have none
  constexpr int64_t kSequences = 16;
  const Batch batch = task.batch(Split::train, 1, 0, kSequences);
  const int64_t count = std::count_if(batch.meta.begin(), batch.meta.end(), [](uint8_t m) { return m != 0; });
  return static_cast<double>(count) / static_cast<double>(batch.rows * batch.length);
}

Trainer::Trainer(const Task& task, nn::Model& model, const TrainPlan& plan, uint64_t seed)
    : task_(task),
      model_(model),
      plan_(plan),
      seed_(seed),
      optimizer_(model.parameters(), plan.optimizer),
      tape_(model.parameters().backend()) {
  const auto step_graph = model.parameters().backend().step_graph;
  if (step_graph && plan.cuda_graph != TrainPlan::CudaGraph::off)
    graph_ = step_graph(plan.cuda_graph == TrainPlan::CudaGraph::on);
}

Trainer::Update Trainer::update() {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < plan_.accumulate; ++i)
    batches.push_back(task_.batch(Split::train, seed_, step_ * plan_.accumulate + i, plan_.batch));

  Update result;
  nn::Carry carry = carry_;
  result.loss = accumulate_gradient(batches, carry, false);
  if (!std::isfinite(result.loss)) explain_non_finite(batches, "loss");
  result.grad_norm = optim::gradient_norm(model_.parameters());
  if (!std::isfinite(result.grad_norm)) explain_non_finite(batches, "gradient");
  result.lr = plan_.schedule.at(step_) * plateau_.factor;
  optimizer_.step(result.lr, optim::clip_scale(result.grad_norm, plan_.clip));
  ++step_;
  carry_ = std::move(carry);
  return result;
}

double Trainer::accumulate_gradient(const std::vector<Batch>& batches, nn::Carry& carry, bool check_finite) {
  const auto labels_of = [](const Batch& batch) {
    return std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t >= 0; });
  };
  int64_t labels = 0;
  for (const Batch& batch : batches) labels += labels_of(batch);
  expect(labels > 0, "train", "step {}: no position of the batch has a label", step_ + 1);

  double loss = 0.0;
  for (size_t i = 0; i < batches.size(); ++i) {
    if (labels_of(batches[i]) == 0) continue;
    Tape::Options options;
    options.check_finite = check_finite;
    options.seed = seed_;
    options.step = static_cast<uint64_t>(step_ * plan_.accumulate) + i;
    options.read_later = true;
    nn::HeadOutput out;
    const auto work = [&] {
      tape_.begin(options);
      out = model_.forward(tape_, model_input(tape_, batches[i], task_.lanes() > 0 ? &carry : nullptr));
      tape_.backward(ops::weighted_sum(tape_, nn::training_loss(tape_, out)),
                     1.0 / static_cast<double>(labels));
    };
    if (graph_ && !check_finite)
      graph_->run(work);
    else
      work();
    tape_.finish_reads();
    dispatch_float(out.nll.dtype(), "train", [&](auto tag) {
      using T = decltype(tag);
      for (T nll : to_host<T>(tape_.backend(), out.nll)) loss += static_cast<double>(nll);
    });
  }
  return loss / static_cast<double>(labels);
}

void Trainer::explain_non_finite(const std::vector<Batch>& batches, const std::string& symptom) {
  model_.parameters().zero_grad();
  std::string op = "gradient_norm", detail = "every op's numbers are finite, but their norm is not";
  nn::Carry carry = carry_;
  try {
    accumulate_gradient(batches, carry, true);
  } catch (const NonFiniteError& error) {
    op = error.op();
    detail = error.what();
  }
  model_.parameters().zero_grad();
  throw NonFiniteError(op, fmt::format("step {}: NaN or Inf in the {}: {}", step_ + 1, symptom, detail));
}

}  // namespace copylab
