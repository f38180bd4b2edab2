// Decoding: against the head's own probabilities, token by token, in every mode.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/check/check_settings.h"
#include "experiments/evaluate/decode.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/train/trainer.h"
#include "tests/catch.h"

using namespace copylab;

namespace {

// p(v) at the end of a context for every v, with at least `floor` of it from the LM head.
std::vector<double> probabilities(const nn::Model& model, const std::vector<int32_t>& context, double floor) {
  std::vector<double> p;
  for (int32_t v = 0; v < model.vocab(); ++v) {
    Batch batch = blank_batch(1, static_cast<int64_t>(context.size()));
    batch.tokens = context;
    batch.targets.back() = v;
    Tape tape(model.parameters().backend());
    tape.begin({.record = false, .training = false});
    const nn::HeadOutput out = model.forward(tape, model_input(tape, batch));
    const double lm = std::exp(-to_host<float>(tape.backend(), out.lm_nll)[0]);
    const double mixed = std::exp(-to_host<float>(tape.backend(), out.nll)[0]);
    const double share =
        1 - to_host<float>(tape.backend(), out.gate)[0] * (1 - to_host<float>(tape.backend(), out.sink)[0]);
    const double pointer = mixed - share * lm;  // gate·pi(v)
    p.push_back(share < floor ? floor * lm + pointer * (1 - floor) / (1 - share) : mixed);
  }
  return p;
}

std::unique_ptr<nn::Model> pointer_model(const Settings& settings, const Task& task) {
  auto model = make_model(settings, task, cpu_backend());
  model->initialise(5);
  return model;
}

}  // namespace

TEST_CASE("decode: the most probable token of the mixture at every step", "[evaluate]") {
  const Settings settings = check_settings({"head.kind=copy_paste", "task.vocab=16"});
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = pointer_model(settings, *task);
  const std::vector<std::vector<int32_t>> prompts = {{3, 1, 4, 1, 5}, {2, 7, 1, 2, 7}};
  for (const double floor : {0.0, 0.3, 0.9}) {
    const auto texts = decode(*model, prompts, {6, 4, "natural", floor});
    for (size_t row = 0; row < prompts.size(); ++row) {
      std::vector<int32_t> text = prompts[row];
      for (int64_t step = 0; step < 6; ++step) {
        const std::vector<double> p = probabilities(*model, {text.end() - 4, text.end()}, floor);
        INFO("floor " << floor << ", row " << row << ", step " << step);
        CHECK(p[texts[row][step]] == Approx(*std::max_element(p.begin(), p.end())).epsilon(1e-5));
        text.push_back(texts[row][step]);
      }
    }
  }
}

TEST_CASE("decode: a model that carries its context on reads each token once, and forgets none",
          "[evaluate][stream]") {
  for (const char* window : {"head.window=5", "head.window=0"}) {
    const Settings settings = check_settings(
        {"model.kind=lstm", "model.ffn=0", "head.kind=pointer_sentinel", window, "task.vocab=16"});
    const auto task = find_task(settings.text("task.name")).make(settings);
    const auto model = pointer_model(settings, *task);
    for (const auto& entry : model->parameters().entries())  // far from uniform
      for (int64_t i = 0; i < entry.tensor.size(); ++i) entry.tensor.data<float>()[i] *= 3;
    const bool carries = std::string(window) == "head.window=5";
    CHECK(model->carries_context() == carries);  // a pointer without a window needs the context itself
    const std::vector<int32_t> prompt = {3, 1, 4, 1, 5};
    const auto next = decode(*model, {prompt}, {12, 8, "natural"})[0];
    std::vector<int32_t> text = prompt;
    for (const int32_t id : next) {
      const int64_t read = carries ? static_cast<int64_t>(text.size()) : std::min<int64_t>(8, text.size());
      const std::vector<double> p = probabilities(*model, {text.end() - read, text.end()}, 0);
      INFO(window << ", " << text.size() << " tokens read");
      CHECK(p[id] == Approx(*std::max_element(p.begin(), p.end())).epsilon(1e-5));
      text.push_back(id);
    }
  }
}

TEST_CASE("decode: a full share of the LM head is no_copy; the pointer alone stays in the context",
          "[evaluate]") {
  const Settings settings = check_settings({"head.kind=copy_paste", "task.vocab=16"});
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = pointer_model(settings, *task);
  const std::vector<std::vector<int32_t>> prompts = {{3, 1, 4, 1, 5}};
  CHECK(decode(*model, prompts, {8, 8, "natural", 1.0}) == decode(*model, prompts, {8, 8, "no_copy"}));
  const auto copied = decode(*model, prompts, {8, 8, "force_copy"});
  for (const int32_t id : copied[0]) CHECK((id == 1 || id == 3 || id == 4 || id == 5));
}

TEST_CASE("decode: refuses what it cannot do", "[evaluate]") {
  const Settings settings = check_settings({"head.kind=vanilla", "task.vocab=16"});
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = pointer_model(settings, *task);
  CHECK_THROWS_WITH(decode(*model, {{1, 2}}, {1, 4, "force_copy"}),
                    "mode force_copy: this model's head has no pointer");
  CHECK_THROWS_WITH(decode(*model, {{}}, {1, 4}), "[decode] a prompt of at least one token expected");
  CHECK_THROWS_WITH(decode(*model, {{1, 2}, {1}}, {1, 4}),
                    "[decode] prompts of one length expected: got 2 and 1");
  CHECK(decode(*model, {{1, 2}}, {3, 4, "no_copy"}) == decode(*model, {{1, 2}}, {3, 4}));
  CHECK_THROWS_WITH(task->tokens_of("1 x"),
                    "[prompt] ids from 0 to 15 separated by blanks expected: got 'x'");
  CHECK(task->tokens_of(task->text_of({1, 0, 15})) == std::vector<int32_t>{1, 0, 15});
}

TEST_CASE("decode: a meta-token of the prompt is marked as in training", "[evaluate]") {
  const Settings settings =
      check_settings({"task.name=list_recall", "task.level=tiny", "task.vocab=64", "task.length=24",
                      "model.meta_attention=all", "model.init_std=0.5", "model.tied=false"});
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = pointer_model(settings, *task);
  const Batch batch = task->batch(Split::test, 1, 0, 32);
  REQUIRE(task->meta_token() == task->vocab() - 1);
  const auto plain = find_task("spamlang").make(check_settings({}));
  CHECK(plain->meta_token() == -1);
  int changed = 0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    int64_t length = batch.length;  // up to the last meta-token
    while (batch.meta[row * batch.length + length - 1] == 0) --length;
    const auto first = batch.tokens.begin() + row * batch.length;
    const std::vector<int32_t> prompt(first, first + length);
    Batch one = blank_batch(1, length);
    one.tokens = prompt;
    one.targets.back() = 0;
    one.meta.assign(batch.meta.begin() + row * batch.length,
                    batch.meta.begin() + row * batch.length + length);
    Tape tape(cpu_backend());
    tape.begin({.record = false, .training = false});
    nn::ModelInput in = model_input(tape, one);
    in.want_argmax = true;
    const std::vector<int32_t> best = to_host<int32_t>(cpu_backend(), model->forward(tape, in).argmax);
    CHECK(decode(*model, {prompt}, {1, batch.length, "natural", 0, task->meta_token()})[0] == best);
    changed += decode(*model, {prompt}, {1, batch.length})[0] != best;
  }
  CHECK(changed > 0);  // without the marks nothing attends among them
}
