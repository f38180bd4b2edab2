// The identity of the user's text: hashes by split, what a change is told as, and what is stored of paths.
#include "tasks/text/content.h"

#include <filesystem>

#include "tasks/text/text.h"
#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using namespace copylab::text;
using copylab::testing::contains;
using copylab::testing::message_of;
using copylab::testing::TemporaryFolder;

namespace {

// Text of at least a line in each of the splits of one file.
std::string lines(int n, const std::string& what) {
  std::string text;
  for (int i = 0; i < n; ++i) text += what + " line " + std::to_string(i) + "\n";
  return text;
}

Settings new_settings(const std::vector<std::pair<std::string, Value>>& changes) {
  Settings settings = task_settings(text_task, changes);
  text_task.complete(settings);
  return settings;
}

}  // namespace

TEST_CASE("Content: of the splits that come from the user's files", "[text]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("my.txt", lines(100, "my")).string();
  CHECK(content_of("", "") == "");
  CHECK(content_of("wikitext-2", "novels") == "");
  const std::string all = content_of(path, "");
  CHECK(all.size() == std::string("train: valid: test:").size() + 3 * 16);
  CHECK(content_of(path, "novels") == all.substr(0, all.find(" test:")));
  CHECK(content_of("", path) == all.substr(all.find("test:")));
  CHECK_NOTHROW(expect_content(path, "", all));
  CHECK_NOTHROW(expect_content(path, "", ""));

  folder.write("my.txt", lines(100, "my") + "!");
  CHECK(content_of(path, "") != all);
  CHECK(contains(message_of([&] { expect_content(path, "", all); }),
                 path + ": its text has changed since the run was made (train split: hash "));
  CHECK(contains(message_of([&] { expect_content("", path, all); }), "(test split: hash "));

  // Of three files the one that changed is named.
  folder.write("own/train.txt", "a b\n");
  folder.write("own/valid.txt", "a b\n");
  const std::string test = folder.write("own/test.txt", "a b\n").string();
  const std::string before = content_of((folder / "own").string(), "");
  folder.write("own/test.txt", "a c b\n");
  CHECK(message_of([&] {
          expect_content((folder / "own").string(), "", before);
        }).starts_with("[text] " + test + ": "));
}

TEST_CASE("Content: a new run is bound to its text, wherever the program is started", "[text]") {
  const TemporaryFolder folder;
  folder.write("my.txt", lines(100, "my"));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const std::string here = std::filesystem::current_path().string();  // without symbolic links
  const Settings settings =
      new_settings({{"task.path", std::string("./my.txt")}, {"task.level", std::string("byte")}});
  std::filesystem::current_path(before);
  CHECK(settings.text("task.path") == here + "/my.txt");
  const auto task = text_task.make(settings);
  CHECK(task->batch(Split::test, 1, 0, 1).targets[0] >= 0);

  // The same settings with another text are refused, and new ones read the new text within one process.
  folder.write("my.txt", lines(100, "your"));
  CHECK(
      contains(message_of([&] { text_task.make(settings); }), "its text has changed since the run was made"));
  const auto other =
      text_task.make(new_settings({{"task.path", here + "/my.txt"}, {"task.level", std::string("byte")}}));
  CHECK(other->batch(Split::test, 1, 0, 1).tokens != task->batch(Split::test, 1, 0, 1).tokens);

  // Shipped corpora need nothing, so that their runs keep their ids.
  const Settings shipped = new_settings({{"task.corpus", std::string("tinyshakespeare")}});
  CHECK(shipped.values() ==
        task_settings(text_task, {{"task.corpus", std::string("tinyshakespeare")}}).values());
}
