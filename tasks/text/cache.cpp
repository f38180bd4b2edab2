// A folder that keeps what takes long to compute: tokenizers and encoded text.
#include "tasks/text/cache.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "core/io/temporary.h"
#include "core/random.h"

namespace copylab::text {
namespace fs = std::filesystem;

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (const fs::path chosen = variable("COPYLAB_CACHE"); !chosen.empty()) return chosen;
  if (const fs::path xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "copylab";
  if (const fs::path home = variable("HOME"); !home.empty()) return home / ".cache" / "copylab";
  return {};
}

// A file is the content and its 64-bit hash.
std::optional<std::string> read_cache(const std::string& name) {
  const fs::path folder = cache_folder();
  if (folder.empty()) return {};
  std::ifstream in(folder / name, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  uint64_t hash = 0;
  if (content.size() < sizeof(hash)) return {};
  const size_t size = content.size() - sizeof(hash);
  std::memcpy(&hash, content.data() + size, sizeof(hash));
  content.resize(size);
  if (hash != hash_name(content)) return {};
  return content;
}

void write_cache(const std::string& name, const std::string& content) {
  const fs::path folder = cache_folder();
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  remove_leftovers(folder);
  const fs::path temporary = temporary_beside(folder / name);
  std::ofstream out(temporary, std::ios::binary);
  const uint64_t hash = hash_name(content);
  out << content;
  out.write(reinterpret_cast<const char*>(&hash), sizeof(hash));
  out.close();
  if (out) fs::rename(temporary, folder / name, error);
  if (!out || error) fs::remove(temporary, error);
}

}  // namespace copylab::text
