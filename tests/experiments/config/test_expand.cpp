// Expansion of experiments: counts, layers, stages, presets, the command line, and selection after tuning.
#include "experiments/config/expand.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "experiments/config/error.h"
#include "experiments/config/values.h"
#include "tests/catch.h"
#include "tests/experiments/config/fake_catalogue.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using namespace copylab::testing;

namespace {

const char* const kExperiment = R"(
name: demo
title: A demonstration
claims: [C29]
base: {task: {name: spamlang, length: 32}, train.batch: 4}
arms:
  vanilla: {head.kind: vanilla}
  copy_paste: {head: {kind: copy_paste, floor: 0.1}}
grid:
  task.vocab: [256, 1024, 4096]
  train.lr: [1e-3, 3e-3]
seeds: 3
select: {over: train.lr, by: valid/loss, goal: min, seeds: [1001], same: vanilla}
measures: [rank]
presets:
  smoke: {grid: {task.vocab: [64]}, seeds: 1, base: {train.steps: 5}}
  plain: {select: null, arms: {vanilla: null}, grid: {train.lr: null}, seeds: [4, 7]}
expected:
  - {metric: test/accuracy, arm: copy_paste, where: {task.vocab: 1024}, role: best, band: [0.98, 1.0], claim: C29}
)";

Experiment load(const std::string& text, const std::string& preset = "") {
  const TemporaryFile file(text);
  return load_experiment(file.path(), preset);
}

Expansion expand(const std::string& text, const std::string& preset = "", const Overrides& overrides = {}) {
  static const Catalogue catalogue = fake_catalogue();
  Experiment experiment = load(text, preset);
  apply(experiment, overrides);
  return Expansion(catalogue, experiment);
}

std::string message_of(const std::string& text, const std::string& preset = "",
                       const Overrides& overrides = {}) {
  try {
    expand(text, preset, overrides);
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    const size_t name = what.find("file.yaml:");  // of the temporary file
    return name == std::string::npos ? what : what.substr(name);
  }
  return "no error";
}

std::string with(const std::string& line) {
  return std::string("name: demo\nbase: {task.name: spamlang}\n") + line;
}

}  // namespace

TEST_CASE("Grid, arms and seeds multiply; tuning comes first", "[expand]") {
  const Expansion e = expand(kExperiment);
  CHECK(e.first().size() == 2 * 3 * 2);
  for (const Cell& cell : e.first()) {
    CHECK(cell.tune);
    CHECK_FALSE(cell.best);
    CHECK(cell.seed == 1001);
    CHECK(cell.result().settings.integer("train.seed") == 1001);
    CHECK(cell.result().settings.integer("task.length") == 32);
  }
  CHECK(e.coordinates() == std::vector<std::string>{"task.vocab", "train.lr"});
  const Cell& last = e.first().back();
  CHECK(last.arm == "copy_paste");
  CHECK(last.result().settings.real("head.floor") == 0.1);
  CHECK(last.coordinates[0] == std::pair<std::string, Value>{"task.vocab", int64_t{4096}});
  CHECK(last.coordinates[1] == std::pair<std::string, Value>{"train.lr", 3e-3});
  CHECK(last.result().folder == "demo/copy_paste-vocab4096-lr0.003-s1001-" + last.result().id);
  CHECK(e.largest_count() == 12 + 2 * 3 * 3 * 2);
  std::set<std::string> ids;
  for (const Cell& cell : e.first()) ids.insert(cell.result().id);
  CHECK(ids.size() == 12);
}

TEST_CASE("Selection marks the best value of each arm, and every arm at the value best for one", "[expand]") {
  const Expansion e = expand(kExperiment);
  const auto metric = [](const Cell& cell) -> std::optional<double> {
    const int64_t vocab = std::get<int64_t>(cell.coordinates[0].second);
    const bool fast = std::get<double>(cell.coordinates[1].second) > 2e-3;
    if (cell.arm == "vanilla" && vocab == 4096) return std::nullopt;      // both failed
    if (cell.arm == "vanilla" && vocab == 1024) return fast ? NAN : 7.0;  // one diverged
    return (cell.arm == "vanilla") == fast ? 2.0 : 1.0;                   // vanilla slow, copy_paste fast
  };
  const std::vector<Cell> cells = e.select(metric);
  std::map<std::string, int> count;
  for (const Cell& cell : cells) {
    const std::string key = fmt::format("{} {} {}", cell.arm, format_value(cell.coordinates[0].second),
                                        format_value(cell.coordinates[1].second));
    if (cell.tune) ++count["tune"];
    if (cell.best) ++count["best " + key];
    if (cell.same) ++count["same " + key];
    CHECK((cell.tune || cell.best || cell.same));
  }
  const std::map<std::string, int> expected = {{"tune", 12},
                                               {"best vanilla 256 0.001", 3},
                                               {"same vanilla 256 0.001", 3},
                                               {"best copy_paste 256 0.003", 3},
                                               {"same copy_paste 256 0.001", 3},
                                               {"best vanilla 1024 0.001", 3},
                                               {"same vanilla 1024 0.001", 3},
                                               {"best copy_paste 1024 0.003", 3},
                                               {"same copy_paste 1024 0.001", 3},
                                               {"best copy_paste 4096 0.003", 3}};
  CHECK(count == expected);
}

TEST_CASE("An arm that sets a swept key takes part only in the points of its own value", "[expand]") {
  const std::string pinned = std::string(kExperiment)
                                 .replace(std::string(kExperiment).find("  copy_paste: {head"), 0,
                                          "  small: {head.kind: vanilla, task.vocab: 256}\n") +
                             "arms_vary: [head, task.vocab]\n";
  const Expansion e = expand(pinned);
  const auto count = [](const std::vector<Cell>& cells, const std::string& arm, bool Cell::*role) {
    return std::count_if(cells.begin(), cells.end(), [&](const Cell& c) { return c.arm == arm && c.*role; });
  };
  CHECK(count(e.first(), "vanilla", &Cell::tune) == 6);
  CHECK(count(e.first(), "small", &Cell::tune) == 2);
  const std::vector<Cell> cells =
      e.select([](const Cell& cell) { return cell.arm == "vanilla" ? 1.0 : 2.0; });
  CHECK(count(cells, "small", &Cell::best) == 3);
  CHECK(count(cells, "small", &Cell::same) == 3);
  for (const Cell& cell : cells) {
    if (cell.arm == "small") CHECK(cell.result().settings.integer("task.vocab") == 256);
  }
  std::string elsewhere = pinned;
  elsewhere.replace(elsewhere.find("task.vocab: 256}"), 16, "task.vocab: 300}");
  CHECK(message_of(elsewhere) == "arms.small: sets task.vocab to '300', which is none of its swept values");
}

TEST_CASE("A tuning seed that is also reported is not run twice", "[expand]") {
  Overrides overrides;
  overrides.seeds = "1001,1002";
  const Expansion e = expand(kExperiment, "smoke", overrides);
  const std::vector<Cell> cells = e.select(
      [](const Cell& cell) { return std::optional<double>(std::get<double>(cell.coordinates[1].second)); });
  CHECK(cells.size() == 4 + 2);  // two arms x two rates on 1001, and the better rate of each arm on 1002
  int both = 0;
  for (const Cell& cell : cells) both += cell.tune && cell.best && cell.same;
  CHECK(both == 2);
}

TEST_CASE("Presets lay over, replace and remove", "[expand]") {
  const Expansion smoke = expand(kExperiment, "smoke");
  CHECK(smoke.first().size() == 4);
  CHECK(smoke.first()[0].result().settings.integer("train.steps") == 5);
  CHECK(smoke.experiment().preset == "smoke");
  CHECK(smoke.experiment().seeds == std::vector<int64_t>{1});
  const Expansion plain = expand(kExperiment, "plain");
  CHECK(plain.first().size() == 1 * 3 * 2);
  CHECK(plain.first()[1].seed == 7);
  CHECK((plain.first()[0].best && plain.first()[0].same && !plain.first()[0].tune));
  CHECK(load(std::string(kExperiment) + "").preset.empty());
  CHECK(load("name: a\npresets: {smoke: {}, quick: {seeds: 2}}\n").preset == "quick");
}

TEST_CASE("The command line replaces swept keys and wins over arms", "[expand]") {
  Overrides overrides;
  overrides.assignments = {"task.vocab=99", "train.batch=2", "head.floor=0.5"};
  const Expansion e = expand(kExperiment, "", overrides);
  CHECK(e.first().size() == 2 * 1 * 2);
  for (const Cell& cell : e.first()) {
    CHECK(cell.result().settings.integer("task.vocab") == 99);
    CHECK(cell.result().settings.integer("train.batch") == 2);
    CHECK(cell.coordinates[0].second == Value{int64_t{99}});
    if (cell.arm == "copy_paste") CHECK(cell.result().settings.real("head.floor") == 0.5);
  }
  overrides = {};
  overrides.sweeps = {"task.vocab=8,16", "train.batch=1,2"};
  overrides.arms = "vanilla";
  overrides.seeds = "2";
  CHECK(expand(kExperiment, "plain", {}).first().size() == 6);
  const Expansion swept = expand(kExperiment, "", overrides);
  CHECK(swept.first().size() == 2 * 2 * 2);  // vocab, lr, batch on the tuning seed
  CHECK(swept.coordinates() == std::vector<std::string>{"task.vocab", "train.lr", "train.batch"});
  overrides.zip = true;
  const Expansion zipped = expand(kExperiment, "", overrides);
  CHECK(zipped.first().size() == 2 * 2);
  overrides.sweeps.push_back("train.steps=7");  // one value: no axis
  const Expansion fixed = expand(kExperiment, "", overrides);
  CHECK(fixed.first().size() == 2 * 2);
  CHECK(fixed.first()[0].result().settings.integer("train.steps") == 7);
  overrides = {};
  overrides.sweeps = {"model.windows=[1,2],[3]"};
  overrides.assignments = {"train.seed=9"};
  const Expansion windows = expand(with(""), "", overrides);
  REQUIRE(windows.first().size() == 2);
  CHECK(windows.first()[0].seed == 9);
  CHECK(windows.first()[0].arm == "base");
  CHECK(windows.first()[0].result().settings.integers("model.windows") == std::vector<int64_t>{1, 2});
}

TEST_CASE("What the command line alters is indexed apart from the presets", "[expand]") {
  CHECK(load(kExperiment, "smoke").index() == "smoke");
  CHECK(load(kExperiment).index() == "full");
  for (const char* change : {"assignments", "sweeps", "seeds", "arms"}) {
    Overrides overrides;
    if (change == std::string("assignments")) overrides.assignments = {"train.batch=2"};
    if (change == std::string("sweeps")) overrides.sweeps = {"train.batch=2,4"};
    if (change == std::string("seeds")) overrides.seeds = "2";
    if (change == std::string("arms")) overrides.arms = "vanilla";
    Experiment experiment = load(kExperiment, "smoke");
    apply(experiment, overrides);
    CHECK(experiment.index() == "custom");
  }
}

TEST_CASE("zip walks together; changes go one at a time", "[expand]") {
  const Expansion zip =
      expand(with("zip: {task.vocab: [8, 16], task.length: [4, 6]}\ngrid: {train.batch: [1, 2]}\n"));
  REQUIRE(zip.first().size() == 4);
  CHECK(zip.first()[1].result().settings.integer("task.length") == 6);
  CHECK(zip.first()[1].result().settings.integer("task.vocab") == 16);
  const Expansion changes = expand(with("changes: {task.vocab: [8, 16], train.lr: [0.5]}\n"));
  REQUIRE(changes.first().size() == 1 + 2 + 1);
  CHECK(changes.first()[3].coordinates[0].second == Value{int64_t{256}});
  CHECK(changes.first()[3].coordinates[1].second == Value{0.5});
}

TEST_CASE("Stages start from each other and are shared where they agree", "[expand]") {
  const std::string text = with(R"(
arms_vary: [train.lr]
arms: {a: {train.lr: 0.1}, b: {train.lr: 0.2}}
measures: [rank]
stages:
  - {name: pretrain, set: {train.lr: 0.01}}
  - {name: finetune, set: {task.name: recall}}
)");
  const Expansion e = expand(text);
  REQUIRE(e.first().size() == 2);
  const Cell& a = e.first()[0];
  const Cell& b = e.first()[1];
  REQUIRE(a.stages.size() == 2);
  CHECK(a.stages[0].id == b.stages[0].id);
  CHECK(a.stages[1].id != b.stages[1].id);
  CHECK(a.stages[0].settings.text("run.parent").empty());
  CHECK(a.stages[1].settings.text("run.parent") == a.stages[0].id);
  CHECK(a.stages[1].settings.real("train.lr") == 0.1);
  CHECK(a.stages[1].settings.text("task.name") == "recall");
  CHECK(a.stages[0].settings.text("run.measures").empty());
  CHECK(a.stages[1].settings.text("run.measures") == "rank");
  CHECK(a.stages[1].folder == "demo/a-s1-finetune-" + a.stages[1].id);
  // Another first stage is another second stage.
  Overrides overrides;
  overrides.assignments = {"train.batch=2"};
  CHECK(expand(text, "", overrides).first()[0].stages[1].id != a.stages[1].id);
}

TEST_CASE("Arms and axes hold in every stage that knows them and does not set them itself", "[expand]") {
  const std::string text = R"(name: demo
base: {task.name: spamlang, task.pairs: 3, train.steps: 9}
arms_vary: [task, train.lr]
arms: {a: {task.length: 8, train.lr: 0.1}, b: {task.length: 16, train.lr: 0.2}}
grid: {task.pairs: [4, 5], train.batch: [2, 3]}
stages:
  - {name: pretrain, set: {train.lr: 0.01}}
  - {name: finetune, set: {task: {name: recall, vocab: 256}, train.batch: 1}}
)";
  const Expansion e = expand(text);
  REQUIRE(e.first().size() == 2 * 2 * 2);
  const Cell &first = e.first()[0], &last = e.first()[7];
  CHECK(first.stages[0].settings.integer("task.length") == 8);  // spamlang knows the length
  CHECK(last.stages[0].settings.integer("task.length") == 16);
  CHECK_FALSE(first.stages[1].settings.has("task.length"));
  CHECK_FALSE(first.stages[0].settings.has("task.pairs"));  // recall knows the pairs
  CHECK(first.stages[1].settings.integer("task.pairs") == 4);
  CHECK(last.stages[1].settings.integer("task.pairs") == 5);
  CHECK(first.stages[0].settings.real("train.lr") == 0.01);
  CHECK(last.stages[1].settings.real("train.lr") == 0.2);
  CHECK(last.stages[0].settings.integer("train.batch") == 3);
  CHECK(last.stages[1].settings.integer("train.batch") == 1);
  // A coordinate is what the cell was swept over, also where the last stage has a value of its own.
  const Value pairs = int64_t{5}, batch = int64_t{3};
  CHECK(last.coordinates ==
        std::vector<std::pair<std::string, Value>>{{"task.pairs", pairs}, {"train.batch", batch}});
  // The first stage depends on the arm and on train.batch, and is shared by all pairs.
  std::set<std::string> ids;
  for (const Cell& cell : e.first()) ids.insert(cell.stages[0].id);
  CHECK(ids.size() == 4);

  CHECK(message_of(with(R"(
grid: {task.pairs: [4], task.nothing: [1]}
stages: [{name: one}, {name: two, set: {task.name: recall}}]
)"))
            .find("task.nothing") != std::string::npos);
  // Without a task of its own the base is of all of them.
  const Expansion shared = expand(R"(name: demo
base: {task.vocab: 64, task.length: 8, task.pairs: 3}
stages: [{name: one, set: {task.name: spamlang}}, {name: two, set: {task.name: recall}}]
)");
  const std::vector<Stage>& stages = shared.first()[0].stages;
  CHECK(stages[0].settings.integer("task.length") == 8);
  CHECK(stages[1].settings.integer("task.pairs") == 3);
  CHECK(stages[1].settings.integer("task.vocab") == 64);
  CHECK_FALSE(stages[1].settings.has("task.length"));
}

TEST_CASE("A preset lays over stages by name, adds some and removes others", "[expand]") {
  const std::string text = with(R"(
stages: [{name: one, set: {train.steps: 5, train.lr: 0.1}}, {name: two, set: {train.steps: 6}}]
presets:
  smoke: {stages: [{name: three, set: {train.steps: 7}}, {name: one, set: {train.steps: 1}}]}
  short: {stages: [{name: one, set: null}]}
  wrong: {stages: [{name: four, set: null}]}
)");
  const Expansion smoke = expand(text, "smoke");
  const std::vector<Stage>& stages = smoke.first()[0].stages;
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].name == "one");
  CHECK(stages[0].settings.integer("train.steps") == 1);
  CHECK(stages[0].settings.real("train.lr") == 0.1);
  CHECK(stages[1].settings.integer("train.steps") == 6);
  CHECK(stages[2].settings.integer("train.steps") == 7);
  const Expansion shorter = expand(text, "short");
  REQUIRE(shorter.first()[0].stages.size() == 1);
  CHECK(shorter.first()[0].stages[0].name == "two");
  CHECK(shorter.first()[0].stages[0].settings.text("run.parent").empty());
  CHECK(message_of(text, "wrong").find("stages: four is set to null to remove it, but it is not there") !=
        std::string::npos);
}

TEST_CASE("Phases of a curriculum change the task's size, and arms share no run", "[expand]") {
  const Expansion e = expand(R"(name: demo
seeds: [3, 4]
arms_vary: [head]
arms: {a: {head.kind: vanilla}, b: {head.kind: copy_paste}}
base: {task.name: recall, task.vocab: 256}
grid: {head.kind: [vanilla, copy_paste]}
stages:
  - {name: pretrain, set: {task: {name: spamlang, vocab: 256}}}
  - {name: near, set: {task.pairs: 2, train.lr: 0.1}}
  - {name: far, set: {task.pairs: 8, train.lr: 0.2, train.steps: 7}}
)");
  REQUIRE(e.first().size() == 4);
  for (const Cell& cell : e.first()) {
    REQUIRE(cell.stages.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      const Settings& s = cell.stages[i].settings;
      CHECK(s.integer("train.seed") == cell.seed);
      CHECK(s.text("head.kind") == (cell.arm == "a" ? "vanilla" : "copy_paste"));
      CHECK(s.text("run.parent") == (i == 0 ? "" : cell.stages[i - 1].id));
    }
    CHECK(cell.stages[1].settings.integer("task.pairs") == 2);
    CHECK(cell.result().settings.integer("task.pairs") == 8);
    CHECK(cell.result().settings.integer("train.steps") == 7);
  }
}

TEST_CASE("Bands match cells by what was swept in an earlier stage", "[expand]") {
  const Catalogue catalogue = fake_catalogue();
  const Expansion e = expand(with(R"(
grid: {task.length: [8, 16], train.lr: [0.5]}
stages: [{name: one}, {name: two, set: {task: {name: recall}}}]
expected: [{metric: test/accuracy, where: {task.length: 8, train.lr: 5e-1}, band: [0, 1]}]
)"));
  const Band& band = e.experiment().expected.at(0);
  const Cell& cell = e.first()[0];
  const auto matching = [&](const std::map<std::string, std::string>& swept) {
    return matches(catalogue, band, cell.arm, {false, true, true}, &cell.result().settings, swept);
  };
  CHECK(matching({{"task.length", "8"}, {"train.lr", "0.5"}}));
  CHECK_FALSE(matching({{"task.length", "16"}, {"train.lr", "0.5"}}));
  CHECK_THROWS_AS(matching({}), ConfigError);  // the last stage has no length
}

TEST_CASE("Bands match cells by arm, role and settings", "[expand]") {
  const Catalogue catalogue = fake_catalogue();
  const Expansion e = expand(kExperiment, "plain");
  const Band& band = e.experiment().expected.at(0);
  CHECK(band.low == 0.98);
  int n = 0;
  for (const Cell& cell : e.first()) {
    n += matches(catalogue, band, cell.arm, {cell.tune, cell.best, cell.same}, &cell.result().settings);
  }
  CHECK(n == 2);  // vocabulary 1024, two seeds
}

TEST_CASE("Each mistake in an experiment has its message", "[expand]") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"gird: {train.lr: [1]}\n", "file.yaml:3: unknown key 'gird' in an experiment; did you mean 'grid'?"},
      {"grid: {train.lr: 1}\n", "file.yaml:3: train.lr: expected a list of values in grid, got '1'"},
      {"grid: {train.lr: []}\n", "file.yaml:3: train.lr: expected a list of values in grid, got []"},
      {"grid: {train.seed: [1, 2]}\n", "file.yaml:3: train.seed: expected under seeds, not in grid"},
      {"grid: {train.rl: [1, 2]}\n",
       "file.yaml:3: unknown key 'train.rl'; did you mean 'train.lr'? (arm base)"},
      {"grid: {train.lr: [1, fast]}\n",
       "file.yaml:3: train.lr: expected a number from 0 to 10, got 'fast' (arm base)"},
      {"grid: {train.lr: [1]}\nzip: {train.lr: [1]}\n", "file.yaml:4: train.lr: is in grid and in zip"},
      {"zip: {train.lr: [1], train.batch: [1, 2]}\n",
       "file.yaml:3: train.batch: expected 1 values as train.lr has, since zip walks its lists together; got "
       "2"},
      {"seeds: many\n", "file.yaml:3: seeds: expected an integer from 1 to 100, got 'many'"},
      {"seeds: [1, -2]\n",
       "file.yaml:3: seeds: expected a list such as [1, 2], each an integer, 0 or more, got [1, -2]"},
      {"select: {over: train.lr, by: valid/loss}\n",
       "file.yaml:3: select.over: expected a key of grid, got 'train.lr'"},
      {"grid: {train.lr: [1]}\nselect: {over: train.lr, by: valid/loss, gaol: max}\n",
       "file.yaml:4: unknown key 'gaol' in select; did you mean 'goal'?"},
      {"grid: {train.lr: [1]}\nselect: {over: train.lr}\n",
       "file.yaml:4: select: expected over: a swept key, and by: a metric"},
      {"grid: {train.lr: [1]}\narms: {vanilla: {}}\nselect: {over: train.lr, by: x, same: vanila}\n",
       "file.yaml:5: select.same: expected one of the arms vanilla, got 'vanila'; did you mean 'vanilla'?"},
      {"arms: {a: {head.gate: slot}}\n",
       "file.yaml:3: head.gate belongs to head.kind=copy_paste, but head.kind is vanilla (arm a)"},
      {"expected: [{metric: test/loss}]\n",
       "file.yaml:3: expected: a metric and a band [low, high] are needed in each entry"},
      {"expected: [{metric: test/loss, band: [2, 1]}]\n",
       "file.yaml:3: expected.band: expected [low, high] with low <= high"},
      {"stages: [{set: {}}]\n", "file.yaml:3: stages: expected a name in each stage"},
      {"presets: {quick: {name: x}}\n", "file.yaml:3: name: cannot be set in a preset"},
      {"presets: {quick: {base: {train.lr: null}}}\n",
       "file.yaml:3: train.lr is set to null to remove it, but it is not there"},
      {"name: again\n", "file.yaml:3: name is given twice in an experiment"},
  };
  for (const auto& [line, expected] : table) {
    INFO(line);
    CHECK(message_of(with(line)) == expected);
  }
  CHECK(message_of(kExperiment, "smok") ==
        "--preset: expected one of smoke, plain for demo, got 'smok'; did you mean 'smoke'?");
  Overrides overrides;
  overrides.assignments = {"head.gat=slot"};
  CHECK(message_of(kExperiment, "", overrides) ==
        "unknown key 'head.gat'; did you mean 'head.gate'? (arm vanilla)");
  overrides.assignments = {"train.lr=1", "train.lr=2"};
  CHECK(message_of(kExperiment, "", overrides) == "train.lr is given twice on the command line");
  overrides = {};
  overrides.arms = "vanila";
  CHECK(message_of(kExperiment, "", overrides) ==
        "--arms: expected arms of demo, got 'vanila'; did you mean 'vanilla'?");
}

TEST_CASE("Every shipped experiment parses in every preset", "[expand]") {
  const std::filesystem::path configs = std::filesystem::path(COPYLAB_SOURCE_DIR) / "configs";
  REQUIRE(std::filesystem::exists(configs));
  for (const auto& file : std::filesystem::directory_iterator(configs)) {
    if (file.path().extension() != ".yaml") continue;
    const Experiment bare = load_experiment(file.path(), "none");
    CHECK(bare.name == file.path().stem().string());
    for (std::string preset : bare.presets) {
      INFO(file.path() << " " << preset);
      CHECK_NOTHROW(Expansion(Catalogue::installed(), load_experiment(file.path(), preset)));
    }
  }
}

TEST_CASE("What would run twice, or is named by the program, is refused", "[expand]") {
  const std::string head = "name: x\nbase: {task.name: spamlang}\n";
  const std::vector<std::pair<std::string, std::string>> table = {
      {"seeds: [4, 4]", "file.yaml:3: seeds: 4 is given twice"},
      {"seeds: 1000000000000", "file.yaml:3: seeds: expected an integer from 1 to 100, got '1000000000000'"},
      {"grid: {train.lr: [1e-3, 0.001]}",
       "arm base: train.lr=0.001 is swept twice: expected each value once"},
      {"stages: [{name: a}, {name: a}]", "file.yaml:3: stages: a is given twice"},
      {"changes: {run.cell: [a, b]}", "file.yaml:3: run.cell: expected no value, for each run gets its own"},
      {"stages: [{name: a, set: {run.experiment: ../up}}]",
       "file.yaml:3: run.experiment: expected no value, for each run gets its own"},
      {"arms: {a: &a {b: *a}}", "file.yaml: expected at most 16 levels of nesting"},
      {"expected: [{metric: test/loss, band: [0, 1], arm: a}]",
       "file.yaml:3: expected.arm: expected none, for there are no arms; got 'a'"},
  };
  for (const auto& [line, expected] : table) CHECK(message_of(head + line + "\n") == expected);
  CHECK(message_of(head, "quick") == "--preset: expected none, for x has no presets; got 'quick'");
}

TEST_CASE("The name of an experiment is that of a folder", "[expand]") {
  for (const char* name : {"../up", "a/b", ".", "..", "-x", "a b", "\xc3\xbc"}) {
    CHECK_THROWS_AS(load(std::string("name: \"") + name + "\"\nbase: {task.name: spamlang}\n"), ConfigError);
  }
  CHECK(load("name: a-b_c.2\nbase: {task.name: spamlang}\n").name == "a-b_c.2");
}

TEST_CASE("A shared file lies under the experiment that includes it, preset by preset", "[expand]") {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "configs/shared");
  std::filesystem::create_directories(folder / "results/demo");
  std::ofstream(folder / "configs/shared/base.yaml")
      << "base: {task: {name: spamlang, length: 32}, train.batch: 4}\nseeds: 2\n"
         "presets: {quick: {base: {train.steps: 7}}, full: {base: {train.steps: 9}}}\n";
  const std::string text =
      "name: demo\ninclude: shared/base.yaml\nbase: {train.batch: 8}\ngrid: {task.vocab: [64]}\n"
      "presets: {quick: {seeds: 3}}\n";
  std::ofstream(folder / "configs/demo.yaml") << text;
  std::ofstream(folder / "results/demo/sweep-quick.yaml")
      << text;  // beside results, configs/ lies further up
  const Catalogue catalogue = fake_catalogue();
  for (const char* file : {"configs/demo.yaml", "results/demo/sweep-quick.yaml"}) {
    const Experiment e = load_experiment(folder / file);
    REQUIRE(e.preset == "quick");
    REQUIRE(e.presets == std::vector<std::string>{"quick", "full"});
    const Expansion expansion(catalogue, e);
    REQUIRE(expansion.first().size() == 3);
    const Settings& settings = expansion.first()[0].result().settings;
    REQUIRE(settings.integer("train.steps") == 7);
    REQUIRE(settings.integer("train.batch") == 8);
    REQUIRE(settings.integer("task.length") == 32);
    // What is stored is whole, and still a file of an experiment.
    REQUIRE(e.text.starts_with(text));
    REQUIRE(contains(e.text, "\n# Included: shared/base.yaml\n# base: {task: {name: spamlang"));
    std::ofstream(folder / "configs/stored.yaml") << e.text;
    REQUIRE(load_experiment(folder / "configs/stored.yaml").presets == e.presets);
  }
  // The other preset is the shared file's alone.
  const Expansion full(catalogue, load_experiment(folder / "configs/demo.yaml", "full"));
  REQUIRE(full.first().size() == 2);
  REQUIRE(full.first()[0].result().settings.integer("train.steps") == 9);

  std::ofstream(folder / "configs/shared/base.yaml") << "name: other\n";
  REQUIRE_THROWS_WITH(load_experiment(folder / "configs/demo.yaml"),
                      Catch::Contains("base.yaml:1: name: cannot be set in a file that is included"));
  REQUIRE(message_of("name: demo\ninclude: nowhere.yaml\n") ==
          "file.yaml:2: include: expected a file beside this one or in configs/, got 'nowhere.yaml'");

  const auto including = [&](const std::string& what) {
    std::ofstream(folder / "configs/demo.yaml") << "name: demo\ninclude: " + what + "\n";
    return copylab::testing::message_of([&] { load_experiment(folder / "configs/demo.yaml"); });
  };
  REQUIRE(contains(including("shared"), "demo.yaml:2: include: expected a file, got the folder '"));
  REQUIRE(contains(including("\"\""), "include: expected a file, got the folder '"));
  std::filesystem::create_symlink(folder / "configs/demo.yaml", folder / "configs/alias.yaml");
  for (const std::string& self : {std::string("demo.yaml"), (folder / "configs/demo.yaml").string(),
                                  std::string("alias.yaml"), std::string("shared/../demo.yaml")})
    REQUIRE(contains(including(self), "demo.yaml:2: include: '" + self + "' is this file itself"));
}

TEST_CASE("Arms set the head alone, or what the file says that they may", "[expand]") {
  const std::string head = "name: demo\nbase: {task.name: spamlang}\n";
  REQUIRE(message_of(head + "arms:\n  a: {head.kind: vanilla}\n  b: {train.lr: 0.1}\n") ==
          "file.yaml:5: arms.b: expected keys of head only, got train.lr; arms_vary names what arms may set");
  REQUIRE(message_of(head + "arms_vary: [train.lr]\narms:\n  b: {train.lr: 0.1}\n") == "no error");
  REQUIRE(message_of(head + "arms_vary: [train.l]\narms:\n  b: {train.lr: 0.1}\n") != "no error");
}

TEST_CASE("Bands compare arms", "[expand]") {
  const std::string head =
      "name: demo\nbase: {task.name: spamlang}\narms: {a: {head.kind: vanilla}}\nexpected:\n";
  const Experiment e =
      load(head + "  - {metric: valid/loss, arm: a, against: a, as: ratio, ci: true, band: [0, 1]}\n");
  REQUIRE(e.expected[0].against == "a");
  REQUIRE(e.expected[0].compare == Band::Compare::ratio);
  REQUIRE(e.expected[0].interval);
  const std::string equal = "  - {metric: x/y, arm: a, against: a, at_equal: x/z, band: [0, 1]";
  REQUIRE(load(head + equal + ", where: {task.vocab: 64}}\n").expected[0].at_equal == "x/z");
  for (const char* wrong : {"}\n", ", where: {task.vocab: 64}, as: ratio}\n"})
    REQUIRE(contains(message_of(head + equal + wrong), "file.yaml:5: expected.at_equal: needs against"));
  REQUIRE(message_of(head + "  - {metric: x/y, against: b, band: [0, 1]}\n") ==
          "file.yaml:5: expected.against: expected one of the arms a, got 'b'; did you mean 'a'?");
  REQUIRE(
      message_of(head + "  - {metric: x/y, preset: smoek, band: [0, 1]}\npresets: {smoke: {}}\n", "smoke") ==
      "file.yaml:5: expected.preset: expected one of the presets smoke, got 'smoek'; did you mean 'smoke'?");
  const std::string elsewhere = head +
                                "  - {metric: x/y, arm: b, preset: full, band: [0, 1]}\n"
                                "presets: {full: {arms: {b: {head.kind: vanilla}}}, smoke: {}}\n";
  REQUIRE(message_of(elsewhere, "smoke") == "no error");
  REQUIRE(message_of(elsewhere, "full") == "no error");
  REQUIRE(message_of(head + "  - {metric: x/y, arm: c, preset: full, band: [0, 1]}\npresets: {full: {}}\n",
                     "full") != "no error");
  REQUIRE(message_of(head + "  - {metric: x/y, as: ratio, band: [0, 1]}\n") ==
          "file.yaml:5: expected.as: needs against: an arm to compare with");
}

// The claim C43 for everything that ships: at one point and seed, arms differ in what their file declares.
TEST_CASE("Arms of every shipped experiment share all that they do not declare", "[expand]") {
  const std::filesystem::path configs = std::filesystem::path(COPYLAB_SOURCE_DIR) / "configs";
  size_t compared = 0;
  for (const auto& file : std::filesystem::directory_iterator(configs)) {
    if (file.path().extension() != ".yaml") continue;
    for (const std::string& preset : load_experiment(file.path(), "none").presets) {
      const Expansion expansion(Catalogue::installed(), load_experiment(file.path(), preset));
      std::map<std::pair<size_t, int64_t>, const Cell*> first;  // by point and seed
      for (const Cell& cell : expansion.first()) {
        const Cell& peer = *first.try_emplace({cell.point, cell.seed}, &cell).first->second;
        if (&peer == &cell) continue;
        ++compared;
        for (size_t stage = 0; stage < cell.stages.size(); ++stage) {
          const Settings &a = cell.stages[stage].settings, &b = peer.stages[stage].settings;
          for (const auto& [key, value] : a.values()) {
            const auto covers = [&, &key = key](const std::string& part) { return key.starts_with(part); };
            const auto& vary = expansion.experiment().arms_vary;
            if (key.starts_with("run.") || std::any_of(vary.begin(), vary.end(), covers)) continue;
            INFO(file.path().string()
                 << " " << preset << ": " << cell.arm << " and " << peer.arm << " at " << key);
            REQUIRE(b.has(key));
            REQUIRE(b.at(key) == value);
          }
        }
      }
    }
  }
  REQUIRE(compared > 0);
}
