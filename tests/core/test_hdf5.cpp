// HDF5 files: round trips, one-line errors for every kind of bad file, and atomic replacement.
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>

#include "core/io/hdf5.h"
#include "core/io/temporary.h"
#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::contains;
using copylab::testing::message_of;
namespace fs = std::filesystem;

namespace {

void write_number(const fs::path& path, double value) {
  h5::write_file(path, [&](h5::File& file) { file.write_scalar("value", value); });
}

int64_t entries_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

}  // namespace

TEST_CASE("HDF5: arrays, scalars and strings come back", "[hdf5]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "a.h5";
  h5::write_file(path, [](h5::File& file) {
    file.write<float>("deep/er/f", {1.5f, 2.5f, -0.0f, 4, 5, 6}, {2, 3}, {"row", "column"});
    file.write<double>("d", std::vector<double>{0.1, 1e300});
    file.write<int32_t>("i", {1, -2}, {2, 1});
    file.write<int64_t>("l", std::vector<int64_t>{int64_t{1} << 60});
    file.write<uint8_t>("u", std::vector<uint8_t>{0, 255});
    file.write<std::string>("s", std::vector<std::string>{"", "naïve", "two words"});
    file.write<double>("empty", std::vector<double>{});
    file.write_scalar<double>("one", 0.25);
    file.write_scalar<std::string>("word", "done");
  });
  const h5::File file = h5::File::open(path);
  const auto f = file.read<float>("deep/er/f");
  REQUIRE(f.shape == h5::Extent{2, 3});
  REQUIRE(f.values == std::vector<float>{1.5f, 2.5f, -0.0f, 4, 5, 6});
  REQUIRE(file.attribute_as<std::vector<std::string>>("deep/er/f", "dims") ==
          std::vector<std::string>{"row", "column"});
  REQUIRE(file.read<double>("d").values == std::vector<double>{0.1, 1e300});
  REQUIRE(file.read<int32_t>("i").values == std::vector<int32_t>{1, -2});
  REQUIRE(file.read<int64_t>("l").values == std::vector<int64_t>{int64_t{1} << 60});
  REQUIRE(file.read<uint8_t>("u").values == std::vector<uint8_t>{0, 255});
  REQUIRE(file.read<std::string>("s").values == std::vector<std::string>{"", "naïve", "two words"});
  REQUIRE(file.read<double>("empty").shape == h5::Extent{0});
  REQUIRE(file.read_scalar<double>("one") == 0.25);
  REQUIRE(file.read_scalar<std::string>("word") == "done");
  REQUIRE(file.list("/") ==
          std::vector<std::string>{"d", "deep", "empty", "i", "l", "one", "s", "u", "word"});
  REQUIRE(file.has("deep/er"));
  REQUIRE(file.is_group("deep/er"));
  REQUIRE_FALSE(file.is_group("deep/er/f"));
  REQUIRE_FALSE(file.has("deep/no/f"));
  REQUIRE(entries_in(folder.path()) == 1);
}

TEST_CASE("HDF5: values widen on reading and never narrow", "[hdf5]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "a.h5";
  h5::write_file(path, [](h5::File& file) {
    file.write<float>("f", std::vector<float>{0.1f});
    file.write<double>("d", std::vector<double>{0.1});
    file.write<uint8_t>("u", std::vector<uint8_t>{200});
    file.write<int64_t>("l", std::vector<int64_t>{7});
  });
  const h5::File file = h5::File::open(path);
  REQUIRE(file.read<double>("f").values[0] == static_cast<double>(0.1f));
  REQUIRE(file.read<int32_t>("u").values[0] == 200);
  REQUIRE_THROWS_AS(file.read<float>("d"), Error);
  REQUIRE_THROWS_AS(file.read<int32_t>("l"), Error);
  REQUIRE_THROWS_AS(file.read<double>("l"), Error);
  REQUIRE_THROWS_AS(file.read<std::string>("d"), Error);
}

TEST_CASE("HDF5: attributes keep their types", "[hdf5]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "a.h5";
  const std::map<std::string, h5::Attribute> all = {
      {"flag", true},
      {"off", false},
      {"integer", int64_t{-3}},
      {"real", 2.0},
      {"text", std::string(100000, 'x')},  // longer than an object header can hold
      {"integers", std::vector<int64_t>{1, 2, 3}},
      {"nothing", std::vector<int64_t>{}},
      {"texts", std::vector<std::string>{"a", ""}},
  };
  h5::write_file(path, [&](h5::File& file) {
    file.make_group("config/deep");
    for (const auto& [name, value] : all) file.set_attribute("config/deep", name, value);
    file.set_attribute("/", "real", 1.0);
    file.set_attribute("/", "real", 5.0);  // replaces
  });
  const h5::File file = h5::File::open(path);
  for (const auto& [name, value] : all) {
    CAPTURE(name);
    REQUIRE(file.attribute("config/deep", name) == value);
  }
  REQUIRE(file.attributes("config/deep").size() == all.size());
  REQUIRE(file.attribute_as<double>("/", "real") == 5.0);
  REQUIRE(contains(message_of([&] { file.attribute("/", "no"); }), "no attribute no of /"));
}

TEST_CASE("HDF5: axes get dimension scales", "[hdf5]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "a.h5";
  h5::write_file(path, [](h5::File& file) {
    file.write<double>("m/step", std::vector<double>{10, 20});
    file.write<double>("m/loss", {3, 2}, {2}, {"step"});
    file.write<double>("m/accuracy", {0, 1}, {2}, {"step"});
    file.attach_scale("m/loss", 0, "m/step");
    file.attach_scale("m/accuracy", 0, "m/step");
  });
  const h5::File file = h5::File::open(path);
  REQUIRE(file.attribute_as<std::string>("m/step", "CLASS") == "DIMENSION_SCALE");
  REQUIRE(file.has_attribute("m/loss", "DIMENSION_LIST"));
}

TEST_CASE("HDF5: a bad file or a wrong request is one clear line", "[hdf5]") {
  testing::TemporaryFolder folder;
  const auto good = folder / "good.h5";
  h5::write_file(good, [](h5::File& file) { file.write<double>("d", std::vector<double>(1000, 1.0)); });
  const auto open = [](const fs::path& path) { return message_of([&] { h5::File::open(path); }); };

  REQUIRE(open(folder / "none.h5") == "[hdf5] " + (folder / "none.h5").string() + ": no such file");
  REQUIRE(contains(open(folder.path()), "not a file"));
  std::ofstream(folder / "foreign.h5") << "step,loss\n1,2.0\n";
  REQUIRE(contains(open(folder / "foreign.h5"), "foreign.h5: not an HDF5 file"));
  std::ofstream(folder / "empty.h5").close();
  REQUIRE(contains(open(folder / "empty.h5"), "not an HDF5 file"));
  for (const double part : {0.2, 0.5, 0.99}) {
    const auto cut = folder / "cut.h5";
    fs::copy_file(good, cut, fs::copy_options::overwrite_existing);
    fs::resize_file(cut, static_cast<uintmax_t>(part * static_cast<double>(fs::file_size(good))));
    REQUIRE(contains(open(cut), "truncated or damaged HDF5 file"));
  }

  const h5::File file = h5::File::open(good);
  REQUIRE(contains(message_of([&] { file.read<double>("x"); }), "good.h5: no dataset x"));
  REQUIRE(contains(message_of([&] { file.read_scalar<double>("d"); }), "d has shape (1000,), expected ()"));
  REQUIRE(contains(message_of([&] { file.list("nowhere"); }), "no group nowhere"));
}

TEST_CASE("HDF5: a failed write leaves the old file and no rubbish", "[hdf5]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "a.h5";
  write_number(path, 1);
  REQUIRE_THROWS_AS(h5::write_file(path,
                                   [](h5::File& file) {
                                     file.write_scalar<double>("value", 2);
                                     throw std::runtime_error("interrupted");
                                   }),
                    std::runtime_error);
  REQUIRE(h5::File::open(path).read_scalar<double>("value") == 1);
  REQUIRE(entries_in(folder.path()) == 1);
  const std::string where = (folder / "no/such/a.h5").string();
  const std::string message = message_of([&] { write_number(where, 1); });
  REQUIRE(contains(message, where + ": cannot be written: No such file or directory"));
}

// A file-size limit fails a write in the same place as a full disk does, without needing one.
TEST_CASE("HDF5: a full disk leaves the old file", "[hdf5]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "a.h5", other = folder / "b.h5";
  write_number(path, 1);
  const auto limited = [&](const std::function<void()>& write) {
    std::fflush(nullptr);  // or the child prints it once more when it ends
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{64 << 10, 64 << 10};
      setrlimit(RLIMIT_FSIZE, &limit);
      const std::string message = message_of(write);
      const bool clear =
          contains(message, path.string()) && contains(message, "MiB free") && !contains(message, "\n");
      write_number(other, 5);  // the library is still usable, and the process ends in good order
      std::exit(clear && h5::File::open(other).read_scalar<double>("value") == 5 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
  };
  REQUIRE(limited([&] {  // a large dataset: the write itself fails
            h5::write_file(
                path, [](h5::File& file) { file.write<double>("big", std::vector<double>(100000, 1.0)); });
          }) == 0);
  REQUIRE(limited([&] {  // many small ones: they wait in HDF5's cache and fail when the file is closed
            h5::write_file(path, [](h5::File& file) {
              for (int i = 0; i < 500; ++i) file.make_group("group" + std::to_string(i));
            });
          }) == 0);
  REQUIRE(limited([&] { h5::write_text(path, std::string(100000, 'x')); }) == 0);
  REQUIRE(h5::File::open(path).read_scalar<double>("value") == 1);
  REQUIRE(entries_in(folder.path()) == 2);
}

TEST_CASE("HDF5: leftovers of killed writers are removed, those of living ones stay", "[hdf5]") {
  testing::TemporaryFolder folder;
  const auto path = folder / "a.h5";
  const pid_t child = fork();
  if (child == 0) {
    h5::write_file(path, [](h5::File& file) {
      file.write_scalar<double>("value", 1);
      raise(SIGKILL);
    });
  }
  waitpid(child, nullptr, 0);
  REQUIRE_FALSE(fs::exists(path));
  REQUIRE(entries_in(folder.path()) == 1);
  h5::write_file(folder / "b.h5", [&](h5::File&) {
    std::ofstream(folder / ".c.h5.tmp-elsewhere-1") << "of another host";
    std::ofstream(folder / "d.tmp-1") << "not ours";
    remove_leftovers(folder.path());
    REQUIRE(entries_in(folder.path()) == 3);  // the writer's own, and these two
  });
  REQUIRE(fs::exists(folder / "b.h5"));
  remove_leftovers(folder / "nowhere");
}

TEST_CASE("HDF5: headers and library agree", "[hdf5]") {
  REQUIRE_NOTHROW(h5::check_version());
  REQUIRE_FALSE(h5::library_version().empty());
}
