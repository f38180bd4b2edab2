// The trainer: plans, accumulation, purity, failures that name step and op; memory estimates.
#include "experiments/train/trainer.h"

#include <cmath>
#include <limits>

#include "experiments/check/check_gradients.h"
#include "experiments/check/check_settings.h"
#include "experiments/check/check_threads.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/train/memory.h"
#include "tests/catch.h"
#include "tests/experiments/marked_task.h"
#include "tests/experiments/small_model.h"

using namespace copylab;

namespace {

struct Setup : testing::SmallModel {
  std::unique_ptr<Trainer> trainer;

  explicit Setup(const std::vector<std::string>& changes = {})
      : SmallModel(changes), trainer(make_trainer()) {}
  std::vector<float> weights() const {
    const float* data = static_cast<const float*>(model->parameters().flat_data());
    return {data, data + model->parameters().flat_size()};
  }
};

}  // namespace

TEST_CASE("Train plan: every budget becomes updates", "[train]") {
  const auto steps = [](const std::vector<std::string>& changes) {
    const Settings settings = check_settings(changes);  // 8 sequences of 16 tokens per update, 64 symbols
    return train_plan(settings, *find_task("spamlang").make(settings)).steps;
  };
  REQUIRE(steps({"train.steps=17"}) == 17);
  REQUIRE(steps({"train.budget=tokens", "train.tokens=1280"}) == 10);
  REQUIRE(steps({"train.budget=tokens", "train.tokens=1281"}) == 11);
  REQUIRE(steps({"train.budget=sequences_per_symbol", "train.sequences_per_symbol=2.5"}) == 20);
  REQUIRE(steps({"train.budget=sequences_per_symbol", "train.sequences_per_symbol=0.01"}) == 1);
  REQUIRE_THROWS_AS(steps({"train.schedule=plateau", "eval.every=0"}), Error);
}

TEST_CASE("Trainer: loss falls, and the same settings give the same bits", "[train]") {
  Setup a, b;
  double first = 0, last = 0;
  for (int i = 0; i < 100; ++i) {
    const Trainer::Update x = a.trainer->update(), y = b.trainer->update();
    REQUIRE(x.loss == y.loss);
    REQUIRE(x.grad_norm == y.grad_norm);
    if (i == 0) first = x.loss;
    last = x.loss;
  }
  REQUIRE(a.weights() == b.weights());
  REQUIRE(first > 2.0);
  REQUIRE(last < 0.8 * first);
  REQUIRE(a.trainer->tokens() == 100 * 8 * 16);
}

TEST_CASE("Trainer: accumulating is the same mean as one large batch", "[train]") {
  Setup small({"train.batch=2", "train.accumulate=4", "model.dropout=0"});
  Setup large({"train.batch=8", "train.accumulate=1", "model.dropout=0"});
  for (int i = 0; i < 3; ++i) {
    const Trainer::Update x = small.trainer->update(), y = large.trainer->update();
    REQUIRE(x.loss == Approx(y.loss).epsilon(1e-5));
    REQUIRE(x.grad_norm == Approx(y.grad_norm).epsilon(1e-4));
  }
}

TEST_CASE("Trainer: an auxiliary loss is minimised, and not reported", "[train]") {
  const std::string head = "head.kind=pointer_sentinel";
  Setup plain({head, "head.auxiliary=0"}), paper({head});
  const Trainer::Update a = plain.trainer->update(), b = paper.trainer->update();
  REQUIRE(a.loss == b.loss);
  REQUIRE(a.grad_norm != b.grad_norm);
  REQUIRE(plain.weights() != paper.weights());
}

TEST_CASE("Trainer: same bits for any number of threads", "[train]") {
  const Settings settings = check_settings({"task.vocab=3000", "task.length=64", "train.batch=16"});
  const uint64_t one = hash_with_threads(settings, 2, 1);
  REQUIRE(hash_with_threads(settings, 2, 2) == one);
  REQUIRE(hash_with_threads(settings, 2, 3) == one);
  REQUIRE(hash_with_threads(check_settings({"train.seed=2"}), 2, 1) !=
          hash_with_threads(check_settings(), 2, 1));
}

TEST_CASE("Trainer: NaN names the step and the op, and changes nothing", "[train]") {
  Setup setup;
  for (int i = 0; i < 4; ++i) setup.trainer->update();
  SECTION("in a weight") {
    const auto& weight = setup.model->parameters().find("blocks.0.mlp.up.weight").tensor;
    weight.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    try {
      setup.trainer->update();
      FAIL("no error");
    } catch (const NonFiniteError& error) {
      REQUIRE(error.op() == "linear");
      REQUIRE(std::string(error.what()).rfind("step 5: NaN or Inf in the loss: [linear]", 0) == 0);
    }
  }
  SECTION("in an overflow") {
    for (const char* name : {"norm.weight", "blocks.0.norm2.weight"}) {
      const auto& weight = setup.model->parameters().find(name).tensor;
      for (int64_t i = 0; i < weight.size(); ++i) weight.data<float>()[i] = 3e38f;
    }
    try {
      setup.trainer->update();
      FAIL("no error");
    } catch (const NonFiniteError& error) {
      REQUIRE(error.op() == "rms_norm");
    }
  }
  REQUIRE(setup.trainer->step() == 4);
  REQUIRE(setup.trainer->optimizer().updates() == 4);
  // No gradient is left behind for whoever goes on from here.
  REQUIRE(optim::gradient_norm(setup.model->parameters()) == 0.0);
}

TEST_CASE("Memory: the estimate is close to what the step arena takes", "[train]") {
  std::vector<std::vector<std::string>> variants = block_variants();
  for (const char* head : {"head.kind=vanilla", "head.kind=copy_paste", "head.kind=pointer_sentinel",
                           "head.kind=mixture_of_softmaxes"})
    variants.push_back({head});
  for (std::vector<std::string> changes : variants) {
    const std::string head = changes.front();
    for (const char* change : {"model.dim=64", "model.heads=4", "model.kv_heads=2", "model.ffn=160",
                               "model.layers=3", "model.dropout=0", "train.accumulate=1"})
      changes.push_back(change);
    Setup setup(changes);
    setup.trainer->update();
    const MemoryEstimate m = estimate_memory(setup.settings, setup.trainer->plan(), *setup.model);
    const double measured = static_cast<double>(setup.trainer->peak_activations());
    CAPTURE(head, m.activations, measured);
    REQUIRE(static_cast<double>(m.activations) == Approx(measured).epsilon(0.25));
    REQUIRE(m.parameters == 4 * setup.model->parameters().flat_size());
    REQUIRE(m.optimizer == 2 * m.parameters);
  }
}

TEST_CASE("Memory: meta-tokens are counted", "[train]") {
  for (const char* dense : {"model.meta_dense=false", "model.meta_dense=true"}) {
    const Settings settings = check_settings({"model.dim=64", "model.heads=4", "model.kv_heads=2",
                                              "model.ffn=160", "model.layers=3", "model.dropout=0",
                                              "train.accumulate=1", "model.meta_attention=all", dense});
    const testing::MarkedTask task(settings);
    CHECK(meta_share(task) == 0.25);
    const auto model = make_model(settings, task, cpu_backend());
    model->initialise(1);
    Trainer trainer(task, *model, train_plan(settings, task), 1);
    trainer.update();
    const MemoryEstimate m = estimate_memory(settings, trainer.plan(), *model);
    CAPTURE(dense, m.activations, trainer.peak_activations());
    CHECK(static_cast<double>(m.activations) ==
          Approx(static_cast<double>(trainer.peak_activations())).epsilon(0.1));
  }
}

TEST_CASE("Memory: a run that does not fit is told what would", "[train]") {
  MemoryEstimate m;
  m.parameters = m.gradients = int64_t{1} << 30;
  m.optimizer = int64_t{2} << 30;
  m.activations = int64_t{8} << 30;
  m.batch = 16;
  REQUIRE(memory_problem(m, int64_t{12} << 30).empty());
  REQUIRE(memory_problem(m, int64_t{8} << 30).find("train.batch=8 would fit") != std::string::npos);
  REQUIRE(memory_problem(m, int64_t{3} << 30).find("no train.batch would fit") != std::string::npos);
  REQUIRE(available_memory() > 0);
}
