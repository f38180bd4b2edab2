// Text files as they are given, plain or packed with xz.
#pragma once

#include <filesystem>
#include <string>

namespace copylab::text {

// The bytes of a file as they lie on disk. Throws Error if it cannot be read.
std::string read_bytes(const std::filesystem::path& file);

// The text in `bytes`: unpacked if they are an .xz file (recognised by its first bytes, whatever the name),
// else as they are. Throws Error naming `file` if the packed data end early or are damaged.
std::string unpack(std::string bytes, const std::filesystem::path& file);

}  // namespace copylab::text
