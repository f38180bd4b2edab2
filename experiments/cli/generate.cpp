// copylab generate: continues a prompt with a trained model.
#include <fmt/format.h>

#include <memory>

#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"
#include "experiments/evaluate/decode.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/schedule/run_index.h"
#include "experiments/store/run_folder.h"

namespace copylab {
namespace {

struct Options {
  std::string run, prompt, root, mode = "natural";
  int64_t tokens = 64;
  double lm_floor = 0;
};

std::vector<int32_t> read_prompt(const Task& task, const std::string& text) {
  std::vector<int32_t> tokens;
  try {
    tokens = task.tokens_of(text);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("--prompt: {}", error.what()));
  }
  if (tokens.empty()) throw ConfigError("--prompt: at least one token expected");
  return tokens;
}

int generate(const Options& options) {
  const LoadedRun run = load_run(find_run(results_root(options.root), options.run));
  if (const RunFolder folder{run.folder}; !folder.trained())
    fmt::print(stderr, "copylab: {}: not trained to its end: these are the weights of step {}{}\n",
               run.folder.string(), run.step, folder.failure().empty() ? "" : ", before it failed");
  const std::vector<int32_t> prompt = read_prompt(*run.task, options.prompt);
  const DecodeOptions decoding{options.tokens, run.task->length(), options.mode, options.lm_floor,
                               run.task->meta_token()};
  const std::vector<int32_t> next = decode(*run.model, {prompt}, decoding)[0];
  fmt::print("{}\n", run.task->text_of(next));
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("generate", "continue a prompt with a trained model, greedily");
  auto options = std::make_shared<Options>();
  verb->add_option("RUN", options->run, "a run's folder, or a part of its name")->required();
  verb->add_option(
          "--prompt", options->prompt,
          "text, or ids separated by blanks where the task has no words; the model reads its last "
          "task.length tokens. _P_ in a text with meta-tokens is one; the continuation gets none, for their "
          "places are random and no model predicts them")
      ->required();
  verb->add_option("--tokens", options->tokens, "tokens to append (default: 64)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  verb->add_option("--mode", options->mode,
                   "natural (the mixture, default), no_copy (LM head alone) or force_copy (pointer alone)")
      ->check(CLI::IsMember({"natural", "no_copy", "force_copy"}));
  verb->add_option("--lm-floor", options->lm_floor,
                   "natural mode: least share of the LM head in the mixture, 0 to 1 (default: 0)")
      ->check(CLI::Range(0.0, 1.0));
  verb->add_option("--from", options->root, "folder of the results (default: results)");
  verb->callback([options, &invocation] { invocation.action = [options] { return generate(*options); }; });
}

}  // namespace copylab
