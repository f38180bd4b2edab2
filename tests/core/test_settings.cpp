// Settings: typed access by dotted path, and what a wrong path or type says.
#include "core/settings.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using copylab::test::error_of;

TEST_CASE("settings give back what was set, under its type", "[settings]") {
  Settings s;
  s.set("head.copy_self", true);
  s.set("model.layers", int64_t{3});
  s.set("train.lr", 1e-3);
  s.set("head.kind", std::string("vanilla"));
  s.set("task.lengths", std::vector<int64_t>{16, 32});
  CHECK(s.flag("head.copy_self"));
  CHECK(s.integer("model.layers") == 3);
  CHECK(s.real("train.lr") == 1e-3);
  CHECK(s.text("head.kind") == "vanilla");
  CHECK(s.integers("task.lengths") == std::vector<int64_t>{16, 32});
  s.set("model.layers", int64_t{4});
  CHECK(s.integer("model.layers") == 4);
  CHECK(s.has("train.lr"));
  CHECK_FALSE(s.has("train"));
}

TEST_CASE("settings list their paths in order", "[settings]") {
  Settings s;
  for (const char* path : {"b", "a.z", "a.b"}) s.set(path, int64_t{0});
  std::vector<std::string> paths;
  for (const auto& [path, value] : s.values()) paths.push_back(path);
  CHECK(paths == std::vector<std::string>{"a.b", "a.z", "b"});
}

TEST_CASE("settings name the path that is missing or of another type", "[settings][errors]") {
  Settings s;
  s.set("train.lr", 1e-3);
  s.set("model.layers", int64_t{3});
  CHECK(error_of([&] { s.real("train.rate"); }) == "[settings] no value for train.rate");
  CHECK(error_of([&] { s.integer("train.lr"); }) == "[settings] train.lr is not an integer");
  CHECK(error_of([&] { s.real("model.layers"); }) == "[settings] model.layers is not a number");
  CHECK(error_of([&] { s.flag("model.layers"); }) == "[settings] model.layers is not a flag");
  CHECK(error_of([&] { s.text("model.layers"); }) == "[settings] model.layers is not a text");
  CHECK(error_of([&] { s.integers("model.layers"); }) == "[settings] model.layers is not a list of integers");
}
