// Typing by the schema: spellings that are one value, and the exact message for each kind of mistake.
#include "experiments/config/values.h"

#include <yaml-cpp/yaml.h>

#include "experiments/config/error.h"
#include "tests/catch.h"
#include "tests/experiments/config/fake_catalogue.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using namespace copylab::testing;

namespace {

std::string message_of(const std::vector<std::string>& assignments) {
  try {
    settings_of(fake_catalogue(), assignments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string yaml_message(const std::string& text) {
  const TemporaryFile file(text);
  try {
    resolve(fake_catalogue(), {flatten(load_yaml(file.path()), "x.yaml")});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("One value has one id, however it is spelled", "[config]") {
  const Catalogue catalogue = fake_catalogue();
  const auto id = [&](const std::string& text) { return run_id(catalogue, settings_of(catalogue, {text})); };
  const std::vector<std::vector<std::string>> same = {
      {"train.lr=1e-4", "train.lr=1.e-4", "train.lr=0.0001", "train.lr=1E-4", "train.lr=+1e-4",
       "train.lr=00.0001"},
      {"train.steps=10", "train.steps=010", "train.steps=+10"},
      {"train.lr=3", "train.lr=3.0", "train.lr=03", "train.lr=3e0"},
      {"head.kind=vanilla", "train.lr=1e-3", "train.steps=300", "model.tied=true", "model.windows=[]"},
  };
  std::set<std::string> ids;
  for (const auto& spellings : same) {
    for (const std::string& text : spellings) {
      INFO(text);
      CHECK(id(text) == id(spellings[0]));
    }
    ids.insert(id(spellings[0]));
  }
  CHECK(ids.size() == same.size());
}

TEST_CASE("YAML spellings go through the same path", "[config]") {
  const Catalogue catalogue = fake_catalogue();
  const std::string expected =
      run_id(catalogue, settings_of(catalogue, {"train.lr=0.0001", "train.steps=10"}));
  for (const std::string text : {"task: {name: spamlang}\ntrain: {lr: 1e-4, steps: 010}\n",
                                 "task.name: spamlang\ntrain.lr: 1.e-4\ntrain.steps: 10\n",
                                 "task.name: \"spamlang\"\ntrain:\n  lr: '0.0001'\n  steps: +10\n"}) {
    const TemporaryFile file(text);
    const Settings settings = resolve(catalogue, {flatten(load_yaml(file.path()), "x.yaml")});
    CHECK(settings.integer("train.steps") == 10);
    CHECK(run_id(catalogue, settings) == expected);
  }
}

TEST_CASE("Each mistake on the command line has its message", "[config]") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"train.steps=1e5", "train.steps: expected an integer from 1 to 1000000, got '1e5' (write 100000)"},
      {"train.steps=1.0", "train.steps: expected an integer from 1 to 1000000, got '1.0' (write 1)"},
      {"train.steps=0x10", "train.steps: expected an integer from 1 to 1000000, got '0x10'"},
      {"train.steps=1.5", "train.steps: expected an integer from 1 to 1000000, got '1.5'"},
      {"train.steps=0", "train.steps: expected an integer from 1 to 1000000, got '0'"},
      {"train.steps=", "train.steps: expected an integer from 1 to 1000000, got ''"},
      {"train.steps=99999999999999999999",
       "train.steps: expected an integer from 1 to 1000000, got '99999999999999999999'"},
      {"train.batch=-1", "train.batch: expected an integer, 1 or more, got '-1'"},
      {"train.lr=yes", "train.lr: expected a number from 0 to 10, got 'yes'"},
      {"train.lr=1e-3x", "train.lr: expected a number from 0 to 10, got '1e-3x'"},
      {"train.lr=1,5",
       "train.lr: expected a number from 0 to 10, got '1,5' (several values: use copylab sweep)"},
      {"train.lr=nan", "train.lr: expected a number from 0 to 10, got 'nan'"},
      {"train.lr=inf", "train.lr: expected a number from 0 to 10, got 'inf'"},
      {"train.lr=-1", "train.lr: expected a number from 0 to 10, got '-1'"},
      {"train.lr=[1]", "train.lr: expected a number from 0 to 10, got [1]"},
      {"model.tied=yes", "model.tied: expected true or false, got 'yes'"},
      {"model.tied=True", "model.tied: expected true or false, got 'True'"},
      {"model.tied=1", "model.tied: expected true or false, got '1'"},
      {"model.preset=nanno", "model.preset: expected one of nano, micro, got 'nanno'; did you mean 'nano'?"},
      {"model.windows=8",
       "model.windows: expected a list such as [1, 2], each an integer from 0 to 4096, got '8'"},
      {"model.windows=[8, x]",
       "model.windows: expected a list such as [1, 2], each an integer from 0 to 4096, got [8, x]"},
      {"model.windows=[8", "model.windows: expected a list such as [1, 2], got '[8'"},
      {"task.name=spamlagn",
       "task.name: expected one of spamlang, recall, got 'spamlagn'; did you mean 'spamlang'?"},
      {"head.kind=copy", "head.kind: expected one of vanilla, copy_paste, got 'copy'"},
      {"run.measures=rnk", "run.measures: expected names of measures, got 'rnk'; did you mean 'rank'?"},
      {"train.rl=1", "unknown key 'train.rl'; did you mean 'train.lr'?"},
      {"lr=1", "unknown key 'lr': it belongs under train; did you mean 'train.lr'?"},
      {"model.lr=1", "unknown key 'model.lr': it belongs under train; did you mean 'train.lr'?"},
      {"train=1", "'train' is a section: expected a key in it, for example train.seed"},
      {"head.gate=slot", "head.gate belongs to head.kind=copy_paste, but head.kind is vanilla"},
      {"task.pairs=2", "task.pairs belongs to task.name=recall, but task.name is spamlang"},
      {"measure.rank.samples=2",
       "measure.rank.samples belongs to measure rank, but this measure is not in run.measures"},
      {"zzz.qqq=2", "unknown key 'zzz.qqq'; copylab list config shows all keys"},
      {"train.lr", "'train.lr': expected key=value, for example train.lr=1e-3"},
      {"=3", "'=3': expected key=value with a dotted key before '='"},
      {"train..lr=3", "'train..lr=3': expected key=value with a dotted key before '='"},
  };
  for (const auto& [input, expected] : table) CHECK(message_of({input}) == expected);
}

TEST_CASE("Each mistake in a file has its message, with the line", "[config]") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"task.name: spamlang\ntrain:\n  lr: fast\n",
       "x.yaml:3: train.lr: expected a number from 0 to 10, got 'fast'"},
      {"task.name: spamlang\ntrain:\n  lr:\n",
       "x.yaml:3: train.lr: expected a number from 0 to 10, got null"},
      {"task.name: spamlang\ntrain: {lr: 1}\ntrain.lr: 2\n",
       "x.yaml:3: train.lr is given twice, first at x.yaml:2"},
      {"task.name: spamlang\ntrain:\n  lr: 1\n  lr: 2\n", "x.yaml:4: train.lr is given twice"},
      {"task.name: spamlang\ntrain:\n  rl: 1\n",
       "x.yaml:3: unknown key 'train.rl'; did you mean 'train.lr'?"},
      {"task.name: spamlang\nhead: {floor: 1}\n",
       "x.yaml:2: head.floor belongs to head.kind=copy_paste, but head.kind is vanilla"},
      {"task.name: spamlang\n'a b': 1\n",
       "x.yaml:2: expected a key of letters, digits, '_' and '.', got 'a b'"},
      {"train.lr: 1\n", "task.name: expected one of spamlang, recall, and it has no default"},
      {"- 1\n- 2\n", "x.yaml:1: expected keys with values"},
      {"task.name: spamlang\ntrain: 3\n",
       "x.yaml:2: 'train' is a section: expected a key in it, for example train.seed"},
      {"task.name: spamlang\nmodel.windows: [1, {a: 2}]\n",
       "x.yaml:2: expected a value or a list, got a map"},
  };
  for (const auto& [input, expected] : table) CHECK(yaml_message(input) == expected);
  CHECK(yaml_message("a: [1\n").find(": not valid YAML: ") != std::string::npos);
  CHECK(yaml_message("a: 1\n---\na: 2\n").find("expected one YAML document, got 2") != std::string::npos);
  CHECK_THROWS_WITH(load_yaml("/nonexistent/x.yaml"), "/nonexistent/x.yaml: cannot be read");
}

TEST_CASE("A letter typed wrong leads to the right key", "[config]") {
  const Catalogue catalogue = fake_catalogue();
  for (const auto& [field, owner] : catalogue.all()) {
    const std::vector<std::string> choose = {
        field.path.starts_with("task.pairs") ? "task.name=recall" : "task.name=spamlang",
        owner == "head.kind=copy_paste" ? "head.kind=copy_paste" : "head.kind=vanilla",
        "run.measures=rank,probe"};
    for (size_t i = 0; i < field.path.size(); ++i) {
      if (field.path[i] == '.') continue;
      std::string wrong = field.path;
      wrong[i] = wrong[i] == 'x' ? 'y' : 'x';
      std::vector<std::string> input = choose;
      input.push_back(wrong + "=1");
      const std::string message = message_of(input);
      INFO(wrong << " gave: " << message);
      CHECK(message.find("unknown key '" + wrong + "'") == 0);
      CHECK(message.find("'" + field.path + "'") != std::string::npos);
    }
  }
}
