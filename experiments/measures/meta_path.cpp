// meta_path: a run's answers when the question cannot see the prompt's words, or its meta-tokens.
#include "experiments/measures/meta_path.h"

#include <algorithm>

#include "experiments/config/error.h"
#include "experiments/measures/answers.h"
#include "tasks/prompts/alphabet.h"

namespace copylab {
namespace {

std::vector<Field> fields() {
  return {{"measure.meta_path.sequences", int64_t{512}, "test sequences of each mode", 1, 1 << 30}};
}

double plan(const MeasureInput& in) {
  expect_config(in.settings.has("task.pause"),
                "[meta_path] a task with task.pause expected: got task.name={}",
                in.settings.text("task.name"));
  return 4 * in.pass_flops(static_cast<double>(in.settings.integer("measure.meta_path.sequences")));
}

// In every layer, of self- and meta-attention. What a meta-token has read of the words remains in it.
ChangeInput blocking(int32_t question, bool words, bool metas) {
  return [=](Tape& tape, const Batch& batch, nn::ModelInput& in) {
    in.intervention.allowed =
        tape.constant(open_paths(batch, question, words, metas), {batch.rows, batch.length, batch.length});
  };
}

void run(const MeasureInput& in, MeasureOutput& out) {
  plan(in);  // refuses a task without a question
  const int32_t question = Alphabet(in.task.vocab()).symbol(Alphabet::Symbol::question);
  const std::vector<std::pair<std::string, ChangeInput>> modes = {
      {"full", {}},
      {"no_words", blocking(question, true, false)},
      {"no_metas", blocking(question, false, true)},
      {"neither", blocking(question, true, true)},
  };
  std::vector<std::string> names;
  std::vector<Answers> found;
  for (const auto& [name, change] : modes) {
    names.push_back(name);
    found.push_back(answers_of(in.model, in.task, in.seed, in.settings.integer("measure.meta_path.sequences"),
                               in.settings.integer("eval.batch"), change));
  }
  report_modes(names, {"run"}, found, {}, {}, out);
  out.scalar("chance", in.task.chance(), "expected accuracy of a uniform guess, of a label");
}

}  // namespace

std::vector<uint8_t> open_paths(const Batch& batch, int32_t question, bool block_words, bool block_metas) {
  const int64_t length = batch.length;
  std::vector<uint8_t> allowed(batch.rows * length * length, 0);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto tokens = batch.tokens.begin() + row * length;
    const int64_t first = std::find(tokens, tokens + length, question) - tokens;
    for (int64_t t = 0; t < length; ++t)
      for (int64_t j = 0; j <= t; ++j) {
        const bool meta = !batch.meta.empty() && batch.meta[row * length + j] != 0;
        const bool blocked = t >= first && j != t && (meta ? block_metas : block_words && j < first);
        allowed[(row * length + t) * length + j] = !blocked;
      }
  }
  return allowed;
}

const MeasureEntry meta_path_measure = {
    "meta_path", "accuracy when questions cannot see the prompt's words, or its meta-tokens (M24)", fields,
    run, plan};

}  // namespace copylab
