// TrainPlan: budgets become numbers of updates.
#include "experiments/train/train_plan.h"

#include <algorithm>
#include <cmath>

namespace copylab {
namespace {

int64_t whole_steps(double amount, int64_t per_step) {
  return std::max<int64_t>(1, std::llround(std::ceil(amount / static_cast<double>(per_step))));
}

int64_t share_of(double share, int64_t steps) {
  return std::llround(share * static_cast<double>(steps));
}

}  // namespace

TrainPlan train_plan(const Settings& settings, const Task& task) {
  TrainPlan plan;
  plan.batch = settings.integer("train.batch");
  plan.accumulate = settings.integer("train.accumulate");
  plan.length = task.length();

  if (const int64_t lanes = task.lanes(); lanes > 0) {
    expect(plan.batch == lanes, "train", "train.batch must be task.lanes = {}, a row for each stream: got {}",
           lanes, plan.batch);
    expect(plan.accumulate == 1, "train",
           "train.accumulate must be 1 with task.lanes = {}, since batches follow each other: got {}", lanes,
           plan.accumulate);
  }

  const std::string& budget = settings.text("train.budget");
  if (budget == "steps")
    plan.steps = settings.integer("train.steps");
  else if (budget == "tokens")
    plan.steps = whole_steps(static_cast<double>(settings.integer("train.tokens")), plan.tokens_per_step());
  else
    plan.steps = whole_steps(settings.real("train.sequences_per_symbol") * static_cast<double>(task.vocab()),
                             plan.sequences_per_step());

  const int64_t log_every = settings.integer("train.log_every");
  plan.log_every = log_every > 0 ? log_every : (plan.steps + 999) / 1000;

  const int64_t keep = settings.integer("train.keep");
  if (keep > 0 || settings.flag("train.keep_ends")) plan.kept = {0, plan.steps};
  for (int64_t i = 1; i <= keep; ++i)  // steps^(1/(keep+1)), steps^(2/(keep+1)), …
    plan.kept.insert(std::llround(
        std::pow(static_cast<double>(plan.steps), static_cast<double>(i) / static_cast<double>(keep + 1))));

  plan.schedule.kind = optim::schedule_kind(settings.text("train.schedule"));
  plan.schedule.lr = settings.real("train.lr");
  plan.schedule.min_lr = settings.real("train.min_lr") * plan.schedule.lr;
  plan.schedule.steps = plan.steps;
  plan.schedule.warmup = share_of(settings.real("train.warmup"), plan.steps);
  plan.schedule.decay = share_of(settings.real("train.decay"), plan.steps);
  expect(plan.schedule.kind != optim::Schedule::Kind::plateau || settings.integer("eval.every") > 0, "train",
         "train.schedule=plateau needs evaluations: set eval.every");

  using Kind = optim::OptimizerOptions::Kind;
  plan.optimizer.kind = settings.text("train.optimizer") == "sgd" ? Kind::sgd : Kind::adamw;
  plan.optimizer.beta1 = settings.real("train.beta1");
  plan.optimizer.beta2 = settings.real("train.beta2");
  plan.optimizer.eps = settings.real("train.eps");
  plan.optimizer.weight_decay = settings.real("train.weight_decay");
  plan.clip = settings.real("train.clip");
  const std::string& graph = settings.text("train.cuda_graph");
  plan.cuda_graph = graph == "on"    ? TrainPlan::CudaGraph::on
                    : graph == "off" ? TrainPlan::CudaGraph::off
                                     : TrainPlan::CudaGraph::automatic;
  return plan;
}

}  // namespace copylab
