// Text files as they are given, plain or packed with xz.
#include "tasks/text/file.h"

#include <lzma.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/error.h"

namespace copylab::text {

std::string read_bytes(const std::filesystem::path& file) {
  expect(!std::filesystem::is_directory(file), "text", "a file expected: got the folder {}", file.string());
  std::ifstream in(file, std::ios::binary);
  expect(in.is_open(), "text", "{}: {}", file.string(), std::strerror(errno));
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  expect(!in.bad(), "text", "{}: cannot be read to its end", file.string());
  return bytes;
}

std::string unpack(std::string bytes, const std::filesystem::path& file) {
  static const std::string kMagic(
      "\xFD"
      "7zXZ\0",
      6);
  if (bytes.compare(0, kMagic.size(), kMagic) != 0) return bytes;

  lzma_stream stream = LZMA_STREAM_INIT;
  expect(lzma_stream_decoder(&stream, UINT64_MAX, LZMA_CONCATENATED) == LZMA_OK, "text",
         "{}: no memory to unpack it", file.string());
  stream.next_in = reinterpret_cast<const uint8_t*>(bytes.data());
  stream.avail_in = bytes.size();
  std::string text;
  lzma_ret status = LZMA_OK;
  while (status == LZMA_OK) {
    const size_t done = text.size();
    text.resize(std::max<size_t>(4 * bytes.size(), 2 * done));
    stream.next_out = reinterpret_cast<uint8_t*>(text.data()) + done;
    stream.avail_out = text.size() - done;
    status = lzma_code(&stream, LZMA_FINISH);
    text.resize(text.size() - stream.avail_out);
  }
  lzma_end(&stream);
  expect(status == LZMA_STREAM_END, "text", "{}: {} .xz file", file.string(),
         status == LZMA_BUF_ERROR ? "truncated" : "damaged");
  return text;
}

}  // namespace copylab::text
