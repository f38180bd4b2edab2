// HDF5 files: typed arrays and attributes by path, and whole files that are replaced at once or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"

namespace copylab::h5 {

using Extent = std::vector<int64_t>;  // sizes of an array of any rank; empty: one number
using Attribute =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<std::string>>;

// Element types of datasets: float, double, int32_t, int64_t, uint8_t, std::string.
template <class T>
struct Array {
  std::vector<T> values;  // row-major
  Extent shape;
};

// An open file. Objects are named by path ("train/loss"); groups on the way are made as needed. Every failure
// throws Error: "[hdf5] FILE: what is wrong with OBJECT".
class File {
 public:
  // Opens for reading. A missing, foreign or truncated file is told apart in the message.
  static File open(const std::filesystem::path& path);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  File(const File&) = delete;
  ~File();

  const std::filesystem::path& path() const { return path_; }

  bool has(const std::string& name) const;
  bool is_group(const std::string& name) const;
  std::vector<std::string> list(const std::string& group) const;  // names of the members, sorted
  Extent shape(const std::string& name) const;
  bool holds_text(const std::string& name) const;
  bool holds_integers(const std::string& name) const;

  // Values widen on reading (float32 to float64, int32 to int64), never narrow: asking for less is an error.
  template <class T>
  Array<T> read(const std::string& name) const;
  // Reads an array of exactly this shape into memory of the caller.
  template <class T>
  void read_into(const std::string& name, T* to, const Extent& shape) const;
  template <class T>
  T read_scalar(const std::string& name) const {
    T value{};
    read_into(name, &value, {});
    return value;
  }

  void make_group(const std::string& name);
  // `dims` names each axis; they are stored as the attribute "dims".
  template <class T>
  void write(const std::string& name, const T* values, const Extent& shape,
             const std::vector<std::string>& dims = {});
  template <class T>
  void write(const std::string& name, const std::vector<T>& values, const Extent& shape,
             const std::vector<std::string>& dims = {}) {
    int64_t size = 1;
    for (int64_t n : shape) size *= n;
    expect(size == static_cast<int64_t>(values.size()), "hdf5", "{}: {} values for a shape of {}", name,
           values.size(), size);
    write(name, values.data(), shape, dims);
  }
  template <class T>
  void write(const std::string& name, const std::vector<T>& values) {
    write(name, values.data(), {static_cast<int64_t>(values.size())});
  }
  template <class T>
  void write_scalar(const std::string& name, const T& value) {
    write(name, &value, {});
  }
  // Makes `scale` (1-D) the dimension scale of axis `axis` of `name`.
  void attach_scale(const std::string& name, int axis, const std::string& scale);

  bool has_attribute(const std::string& object, const std::string& name) const;
  Attribute attribute(const std::string& object, const std::string& name) const;
  std::vector<std::string> attributes(const std::string& object) const;  // names, sorted
  void set_attribute(const std::string& object, const std::string& name, const Attribute& value);
  // The attribute as a T; another type is an error.
  template <class T>
  T attribute_as(const std::string& object, const std::string& name) const {
    const Attribute value = attribute(object, name);
    const T* typed = std::get_if<T>(&value);
    if (!typed) fail("attribute " + name + " of " + object + " has an unexpected type");
    return *typed;
  }

 private:
  friend void write_file(const std::filesystem::path&, const std::function<void(File&)>&);
  File(std::filesystem::path path, int64_t id) : path_(std::move(path)), id_(id) {}
  void close();
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;  // as the user knows it, also while the file still has its temporary name
  int64_t id_ = -1;
};

// Replaces `path` by what `body` writes: into a temporary file beside it (core/io/temporary.h), then fsync,
// rename, fsync of the folder. At every moment, also after a crash, `path` is the old file or the new one,
// complete. On failure the old file stays, the temporary one is removed, and the error names the path and the
// free space.
void write_file(const std::filesystem::path& path, const std::function<void(File&)>& body);

// The same discipline for a small text file.
void write_text(const std::filesystem::path& path, const std::string& text);

std::string header_version();   // of the headers this program was compiled with, "1.10.8"
std::string library_version();  // of the library it runs with
// Throws Error unless both versions agree on major and minor and the library is not older.
void check_version();

}  // namespace copylab::h5
