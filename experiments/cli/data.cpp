// copylab data: the exact batches that a training reads, as HDF5 or printed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/config/error.h"
#include "experiments/config/resolve.h"
#include "experiments/evaluate/export_batches.h"
#include "experiments/plan/estimate.h"
#include "tasks/task.h"

namespace copylab {
namespace {

struct Options {
  std::string task, steps = "0:1", split = "train", out;
  int64_t show = 0;
  std::vector<std::string> assignments;
};

Settings settings_of(const Options& options) {
  RawConfig base, command;
  base.set("task.name", {RawValue::Kind::scalar, options.task, {}, ""});
  for (const std::string& text : options.assignments) {
    const RawConfig::Entry entry = parse_assignment(text);
    command.set(entry.key, entry.value);
  }
  Settings settings = resolve(Catalogue::installed(), {base, command});
  expect_consistent(settings);
  return settings;
}

// "3:5" is steps 3 and 4.
std::pair<int64_t, int64_t> range_of(const std::string& text) {
  int64_t from = 0, to = 0;
  const char* end = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), end, from);
  const bool first = error == std::errc() && colon != end && *colon == ':';
  const bool second = first && std::from_chars(colon + 1, end, to).ptr == end && colon + 1 != end;
  constexpr int64_t kLast = 1'000'000'000'000;  // times train.accumulate it is still a number of a batch
  if (!second || from < 0 || to <= from || to > kLast) {
    throw ConfigError(
        fmt::format("--steps: expected FROM:TO with FROM < TO, at most {}, got '{}'", kLast, text));
  }
  return {from, to};
}

int run_data(const Options& options) {
  const Settings settings = settings_of(options);
  const auto [from, to] = range_of(options.steps);
  const Split split = options.split == "train"   ? Split::train
                      : options.split == "valid" ? Split::valid
                                                 : Split::test;
  if (options.show > 0) {
    const std::unique_ptr<Task> task = find_task(options.task).make(settings);
    const uint64_t seed = static_cast<uint64_t>(settings.integer("train.seed"));
    const int64_t batch = from * settings.integer("train.accumulate");
    const Batch shown = task->batch(split, seed, batch, settings.integer("train.batch"));
    for (int64_t row = 0; row < std::min(options.show, shown.rows); ++row)
      fmt::print("{}\n", task->show(shown, row));
  }
  if (!options.out.empty()) {
    export_batches(settings, split, from, to, options.out);
    fmt::print("{}\n", options.out);
  }
  return 0;
}

}  // namespace

void add_data(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("data", "the exact batches of a task, into HDF5 or printed");
  auto options = std::make_shared<Options>();
  verb->add_option("TASK", options->task, "one of `copylab list tasks`")->required();
  verb->add_option("key=value", options->assignments, "settings: task.*, train.batch, train.seed");
  verb->add_option("--steps", options->steps, "FROM:TO, without TO (default: 0:1)");
  verb->add_option("--split", options->split, "train, valid or test")
      ->check(CLI::IsMember({"train", "valid", "test"}));
  CLI::Option* out =
      verb->add_option("--out", options->out, "HDF5 file: tokens, targets (step, row, position)");
  CLI::Option* show =
      verb->add_option("--show", options->show, "print this many sequences of the first batch (default: 3)")
          ->expected(0, 1)
          ->default_str("3")
          ->check(CLI::Range(1, 1000000));
  verb->callback([options, out, show, &invocation] {
    if (!out->count() && !show->count()) throw CLI::RequiredError("--out or --show");
    invocation.action = [options] { return run_data(*options); };
  });
}

}  // namespace copylab
