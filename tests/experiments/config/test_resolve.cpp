// Layers, the run id (which fields count) and the YAML form.
#include "experiments/config/resolve.h"

#include <yaml-cpp/yaml.h>

#include "experiments/config/error.h"
#include "experiments/config/values.h"
#include "tests/catch.h"
#include "tests/experiments/config/fake_catalogue.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using namespace copylab::testing;

namespace {

// Another value that the field accepts.
Value changed(const Field& field, const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return !*flag;
  if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    return static_cast<double>(*integer) < field.max ? *integer + 1 : *integer - 1;
  }
  if (const double* real = std::get_if<double>(&value)) {
    return *real + 1e-9 <= field.max ? *real + 1e-9 : *real - 1e-9;
  }
  if (const std::string* text = std::get_if<std::string>(&value)) {
    for (const std::string& choice : field.choices) {
      if (choice != *text) return choice;
    }
    return *text + "x";
  }
  std::vector<int64_t> list = std::get<std::vector<int64_t>>(value);
  list.push_back(1);
  return list;
}

void check_ids(const Catalogue& catalogue, const Settings& settings) {
  const std::string id = run_id(catalogue, settings);
  const Schema schema(catalogue, settings.text("task.name"), settings.text("head.kind"), {});
  for (const Field& field : schema.fields()) {
    if (field.path == "task.name" || field.path == "head.kind") continue;  // change the schema itself
    Settings other = settings;
    other.set(field.path, changed(field, settings.at(field.path)));
    INFO(field.path);
    CHECK((run_id(catalogue, other) != id) == field.semantic);
  }
}

}  // namespace

TEST_CASE("Every semantic field is in the run id, no other is", "[config]") {
  const Catalogue catalogue = fake_catalogue();
  const Settings vanilla = settings_of(catalogue, {});
  const Settings copy = settings_of(catalogue, {"head.kind=copy_paste", "model.windows=[8, 16]"});
  check_ids(catalogue, vanilla);
  check_ids(catalogue, copy);
  CHECK(run_id(catalogue, vanilla) != run_id(catalogue, settings_of(catalogue, {"head.kind=copy_paste"})));
  CHECK(run_id(catalogue, vanilla) != run_id(catalogue, settings_of(catalogue, {"task.name=recall"})));
}

TEST_CASE("The run id of the program's own schema", "[config]") {
  const Catalogue& catalogue = Catalogue::installed();
  for (const Choice& task : catalogue.tasks) {
    for (const Choice& head : catalogue.heads) {
      check_ids(catalogue, settings_of(catalogue, {"task.name=" + task.name, "head.kind=" + head.name}));
    }
  }
}

TEST_CASE("The run id holds the version of the task", "[config]") {
  Catalogue catalogue = fake_catalogue();
  const Settings settings = settings_of(catalogue, {});
  const std::string id = run_id(catalogue, settings);
  CHECK(id.size() == 8);
  ++catalogue.tasks[0].version;
  CHECK(run_id(catalogue, settings) != id);
}

TEST_CASE("Settings of measures are checked but not in the run id", "[config]") {
  const Catalogue catalogue = fake_catalogue();
  const Settings a = settings_of(catalogue, {});
  const Settings b = settings_of(catalogue, {"run.measures=rank,probe", "measure.rank.samples=7"});
  CHECK(b.integer("measure.rank.samples") == 7);
  CHECK(b.integer("measure.probe.layer") == 0);
  CHECK(run_id(catalogue, a) == run_id(catalogue, b));
}

TEST_CASE("Layers: the last one wins, presets fill what nobody set, another head starts afresh", "[config]") {
  const Catalogue catalogue = fake_catalogue();
  CHECK(settings_of(catalogue, {}).integer("model.dim") == 64);
  const Settings micro = settings_of(catalogue, {"model.preset=micro"});
  CHECK(micro.integer("model.dim") == 128);
  CHECK(settings_of(catalogue, {"model.preset=micro", "model.dim=32"}).integer("model.dim") == 32);
  CHECK(run_id(catalogue, micro) == run_id(catalogue, settings_of(catalogue, {"model.dim=128"})));

  const auto layer = [](const std::vector<std::string>& assignments) {
    RawConfig raw;
    for (const std::string& text : assignments) {
      const RawConfig::Entry entry = parse_assignment(text);
      raw.set(entry.key, entry.value);
    }
    return raw;
  };
  const RawConfig low =
      layer({"task.name=spamlang", "head.kind=copy_paste", "head.gate=sigmoid", "train.lr=1"});
  CHECK(resolve(catalogue, {low, layer({"train.lr=2"})}).real("train.lr") == 2.0);
  CHECK(resolve(catalogue, {low, layer({"head.kind=copy_paste"})}).text("head.gate") == "sigmoid");
  CHECK_FALSE(resolve(catalogue, {low, layer({"head.kind=vanilla"})}).has("head.gate"));
  // A value that a later layer replaces is still checked.
  CHECK_THROWS_AS(resolve(catalogue, {layer({"task.name=spamlang", "train.lr=x"}), layer({"train.lr=2"})}),
                  ConfigError);
}

TEST_CASE("Resolved settings written as YAML read back as the same run", "[config]") {
  const Catalogue catalogue = fake_catalogue();
  for (const std::vector<std::string>& input : std::vector<std::vector<std::string>>{
           {},
           {"head.kind=copy_paste", "train.lr=1e-7", "model.windows=[4, 0]", "head.copy_self=false"},
           {"run.cell=null", "run.experiment=a: \"b\" # c", "run.measures=rank", "run.parent=00e10000"},
           {"run.cell=true", "run.experiment=", "run.parent=1e5", "train.lr=0.30000000000000004"}}) {
    const Settings settings = settings_of(catalogue, input);
    const std::string text = to_yaml(settings);
    INFO(text);
    const TemporaryFile file(text);
    const Settings back = resolve(catalogue, {flatten(load_yaml(file.path()), "config.yaml")});
    CHECK(back.values() == settings.values());
    CHECK(run_id(catalogue, back) == run_id(catalogue, settings));
  }
}

TEST_CASE("Every field has a doc line, and a default that it accepts", "[config]") {
  for (const auto& [field, owner] : Catalogue::installed().all()) {
    INFO(field.path);
    CHECK_FALSE(field.doc.empty());
    CHECK(field.doc.find('\n') == std::string::npos);
    if (field.path == "task.name") continue;  // has no default
    RawValue raw{RawValue::Kind::scalar, format_value(field.fallback), {}, ""};
    if (std::holds_alternative<std::vector<int64_t>>(field.fallback))
      raw = parse_assignment("x=" + raw.text).value;
    CHECK(parse_value(field, raw) == field.fallback);
  }
}

TEST_CASE("committed reference runs keep their ids", "[config]") {
  const std::filesystem::path reference = std::filesystem::path(COPYLAB_SOURCE_DIR) / "results/reference";
  int runs = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(reference)) {
    if (file.path().filename() != "config.yaml") continue;
    const std::string folder = file.path().parent_path().filename();
    INFO(folder);
    CHECK(run_id(load_settings(file.path())) == folder.substr(folder.rfind('-') + 1));
    ++runs;
  }
  CHECK(runs > 0);
}
