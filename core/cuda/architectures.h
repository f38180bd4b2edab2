// Which GPUs a build runs on, told from the names of its architectures alone: to ask the driver would open a
// context on the GPU, which keeps other processes off one in exclusive mode.
#pragma once

#include <cctype>
#include <sstream>
#include <string>

namespace copylab::cuda {

// `built`: names as in CMake's CUDA_ARCHITECTURES, separated by blanks. 80-real is code for the GPUs 8.0 and
// later ones of 8.x, 80-virtual is PTX that every GPU from 8.0 on compiles for itself, 80 is both; 90a is
// for 9.0 alone, 100f for 10.x.
inline bool runs_on(const std::string& built, int major, int minor) {
  std::istringstream names(built);
  for (std::string name; names >> name;) {
    size_t digits = 0;
    while (digits < name.size() && std::isdigit(static_cast<unsigned char>(name[digits]))) ++digits;
    if (digits == 0) return true;  // native, all: whoever chose that knows the machine
    const int built_for = std::stoi(name.substr(0, digits)), gpu = 10 * major + minor;
    const std::string kind = name.substr(digits);
    const bool same_major = built_for / 10 == major;
    const bool bound = kind == "-real" || kind.starts_with("f");  // to its major version
    if (kind.starts_with("a") ? gpu == built_for : gpu >= built_for && (same_major || !bound)) return true;
  }
  return false;
}

}  // namespace copylab::cuda
