// A folder that keeps what takes long to compute: tokenizers and encoded text.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace copylab::text {

// $COPYLAB_CACHE, else $XDG_CACHE_HOME/copylab, else ~/.cache/copylab; empty if none of them is set. It may
// be removed at any time.
std::filesystem::path cache_folder();

// The content that was kept under a name; nothing if there is none or its checksum is wrong.
std::optional<std::string> read_cache(const std::string& name);

// Keeps content under a name. Several processes may do so at once: each writes a file of its own and renames
// it. Where the folder cannot be written nothing is kept, and nothing is wrong.
void write_cache(const std::string& name, const std::string& content);

}  // namespace copylab::text
