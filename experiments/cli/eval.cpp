// copylab eval: a trained model on given token sequences, position by position.
#include "experiments/evaluate/eval_tokens.h"

#include <fmt/format.h>

#include <memory>

#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/schedule/run_index.h"

namespace copylab {

void add_eval(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand(
      "eval",
      "a trained model on token sequences: loss, gate, sink and argmax of each position, in each mode");
  struct Options {
    std::string run, tokens, out, root;
  };
  auto options = std::make_shared<Options>();
  verb->add_option("RUN", options->run, "a run's folder, or a part of its name")->required();
  verb->add_option("--tokens", options->tokens,
                   "HDF5 file: tokens (sequences, positions), and targets unless it is the next token")
      ->required();
  verb->add_option(
          "--out", options->out,
          "HDF5 file to write: nll, argmax, and for a pointer no_copy_nll, force_copy_nll, gate, sink, ...")
      ->required();
  verb->add_option("--from", options->root, "folder of the results (default: results)");
  verb->callback([options, &invocation] {
    invocation.action = [options] {
      eval_tokens(find_run(results_root(options->root), options->run), options->tokens, options->out);
      fmt::print("{}\n", options->out);
      return 0;
    };
  });
}

}  // namespace copylab
