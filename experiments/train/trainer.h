// Trainer: one model's sequence of updates, a pure function of settings, task and step.
#pragma once

#include "core/nn/model.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"
#include "experiments/evaluate/split_walk.h"
#include "experiments/train/train_plan.h"
#include "tasks/task.h"

namespace copylab {

class Trainer {
 public:
  // The model's parameters are allocated and hold the initial weights; model and task outlive the trainer.
  Trainer(const Task& task, nn::Model& model, const TrainPlan& plan, uint64_t seed);

  struct Update {
    double loss;  // mean -log p over the labels of all accumulated batches, before the update
    double lr;
    double grad_norm;  // before clipping
  };
  // The next update: batches accumulate·step … of the training split, gradient of the mean loss (with the
  // head's auxiliary loss, if it has one) over all of their labels, clipping by the global norm, optimizer.
  // NaN or Inf in loss or gradient throws NonFiniteError that names the step and the op it came from, and
  // leaves weights, optimizer and carry as they were.
  Update update();

  int64_t step() const { return step_; }  // updates done
  int64_t tokens() const { return step_ * plan_.tokens_per_step(); }
  bool finished() const { return step_ >= plan_.steps; }
  const TrainPlan& plan() const { return plan_; }
  nn::Model& model() { return model_; }

  // What a checkpoint holds besides the weights.
  optim::Optimizer& optimizer() { return optimizer_; }
  optim::Plateau& plateau() { return plateau_; }
  nn::Carry& carry() { return carry_; }  // of the streams of a stream task
  void resume_at(int64_t step) { step_ = step; }

  // How forward and backward passes ran on the backend's step graph; null if they use none.
  const StepGraph::Counts* graph_counts() const { return graph_ ? &graph_->counts() : nullptr; }

  // Largest use of the step arena so far, bytes.
  size_t peak_activations() { return tape_.arena().peak(); }

 private:
  // Adds the gradient of the mean loss of this step's batches, and returns that loss. `carry`: what the lanes
  // remember, before and after.
  double accumulate_gradient(const std::vector<Batch>& batches, nn::Carry& carry, bool check_finite);
  [[noreturn]] void explain_non_finite(const std::vector<Batch>& batches, const std::string& symptom);

  const Task& task_;
  nn::Model& model_;
  TrainPlan plan_;
  uint64_t seed_;
  optim::Optimizer optimizer_;
  optim::Plateau plateau_;
  nn::Carry carry_;
  Tape tape_;
  std::unique_ptr<StepGraph> graph_;  // null: every command is asked for by itself
  int64_t step_ = 0;
};

// The share of positions that hold a meta-token, counted in the first training sequences.
double meta_share(const Task& task);

}  // namespace copylab
