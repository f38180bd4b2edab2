// Text files: plain, packed, truncated, damaged, missing.
#include "tasks/text/file.h"

#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using namespace copylab::text;
using copylab::testing::contains;
using copylab::testing::message_of;
using copylab::testing::TemporaryFolder;

namespace {

const std::filesystem::path kPacked =
    std::filesystem::path(COPYLAB_SOURCE_DIR) / "tasks/text/corpora/tinyshakespeare/input.txt.xz";

}  // namespace

TEST_CASE("a packed file is recognised by its content, a plain one is given as it is", "[text]") {
  const TemporaryFolder folder;
  const std::string packed = read_bytes(kPacked);
  const std::string text = unpack(packed, kPacked);
  CHECK(text.size() == 1115394);
  CHECK(text.substr(0, 14) == "First Citizen:");
  CHECK(unpack(read_bytes(folder.write("no-suffix", packed)), "no-suffix") == text);
  CHECK(unpack(packed + packed, "joined.xz") == text + text);
  CHECK(read_bytes(folder.write("plain.xz", std::string("a\0b\r\n", 5))) == std::string("a\0b\r\n", 5));
  CHECK(unpack("plain", "plain.xz") == "plain");
}

TEST_CASE("truncated and damaged packed files are one-line errors", "[text]") {
  const std::string packed = read_bytes(kPacked);
  for (const size_t size : {size_t{6}, size_t{12}, packed.size() / 2, packed.size() - 1})
    CHECK(message_of([&] { unpack(packed.substr(0, size), "a/b.xz"); }) ==
          "[text] a/b.xz: truncated .xz file");
  std::string damaged = packed;
  damaged[packed.size() / 2] ^= 1;
  CHECK(message_of([&] { unpack(damaged, "a/b.xz"); }) == "[text] a/b.xz: damaged .xz file");
}

TEST_CASE("a file that cannot be read is named", "[text]") {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing.txt").string();
  CHECK(message_of([&] { read_bytes(missing); }) == "[text] " + missing + ": No such file or directory");
  CHECK(contains(message_of([&] { read_bytes(folder.path()); }), "a file expected: got the folder"));
}
