// HDF5 files over the C API: handles that close themselves, one-line errors, atomic replacement.
#include "core/io/hdf5.h"

#include <fcntl.h>
#include <hdf5.h>
#include <hdf5_hl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/io/temporary.h"

namespace copylab::h5 {
namespace fs = std::filesystem;
namespace {

// An HDF5 identifier that is closed at the end of its scope.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// A file that could not be closed because the disk is full stays in HDF5's table, freed but listed, and the
// library's clean-up at exit crashes on it (1.10.8). Every file is closed here explicitly, so that clean-up
// is not needed. This must come before any other call.
[[maybe_unused]] const herr_t no_clean_up_at_exit = H5dont_atexit();

// HDF5 prints a stack trace on every error unless told not to; our errors say it in one line.
void silence() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

// File access without locks: some cluster file systems have none, and files are only ever replaced whole.
Handle access_list() {
  const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fclose_degree(list, H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(list, false, true);
#endif
  return Handle(list, H5Pclose);
}

Handle string_type() {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return Handle(type, H5Tclose);
}

// The enumeration that h5py reads and writes as a boolean.
Handle flag_type() {
  const hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  const int8_t no = 0, yes = 1;
  H5Tenum_insert(type, "FALSE", &no);
  H5Tenum_insert(type, "TRUE", &yes);
  return Handle(type, H5Tclose);
}

template <class T>
Handle memory_type() {
  if constexpr (std::is_same_v<T, std::string>) {
    return string_type();
  } else {
    const hid_t native = std::is_same_v<T, float>     ? H5T_NATIVE_FLOAT
                         : std::is_same_v<T, double>  ? H5T_NATIVE_DOUBLE
                         : std::is_same_v<T, int32_t> ? H5T_NATIVE_INT32
                         : std::is_same_v<T, int64_t> ? H5T_NATIVE_INT64
                                                      : H5T_NATIVE_UINT8;
    return Handle(H5Tcopy(native), H5Tclose);
  }
}

Handle make_space(const Extent& shape) {
  if (shape.empty()) return Handle(H5Screate(H5S_SCALAR), H5Sclose);
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  return Handle(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose);
}

Extent extent_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> sizes(std::max(rank, 0));
  if (rank > 0) H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

int64_t size_of(const Extent& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

std::string text_of(const Extent& shape) {
  std::string out;
  for (int64_t size : shape) out += (out.empty() ? "" : ", ") + std::to_string(size);
  return "(" + out + (shape.size() == 1 ? ",)" : ")");
}

// Stored type -> what is in it; the value is widened to T on reading if it fits without loss.
template <class T>
bool widens_to(hid_t stored) {
  const H5T_class_t kind = H5Tget_class(stored);
  const size_t size = H5Tget_size(stored);
  if constexpr (std::is_same_v<T, std::string>) {
    return kind == H5T_STRING;
  } else if constexpr (std::is_floating_point_v<T>) {
    return kind == H5T_FLOAT && size <= sizeof(T);
  } else {
    if (kind != H5T_INTEGER) return false;
    const bool stored_signed = H5Tget_sign(stored) == H5T_SGN_2;
    if (std::is_signed_v<T> == stored_signed) return size <= sizeof(T);
    return std::is_signed_v<T> && size < sizeof(T);
  }
}

// Copies `n` strings out of a dataset or attribute; `read(type, buffer)` is H5Dread or H5Aread.
template <class Read>
bool read_strings(hid_t stored, hid_t space, int64_t n, std::string* to, Read&& read) {
  if (H5Tis_variable_str(stored) > 0) {
    std::vector<char*> raw(n, nullptr);
    const Handle type(H5Tcopy(stored), H5Tclose);
    if (read(static_cast<hid_t>(type), static_cast<void*>(raw.data())) < 0) return false;
    for (int64_t i = 0; i < n; ++i) to[i] = raw[i] ? raw[i] : "";
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, raw.data());
    return true;
  }
  const size_t size = H5Tget_size(stored);
  std::string raw(size * n, '\0');
  if (read(stored, static_cast<void*>(raw.data())) < 0) return false;
  for (int64_t i = 0; i < n; ++i) {
    const char* first = raw.data() + i * size;
    to[i].assign(first, strnlen(first, size));
  }
  return true;
}

std::string free_space(const fs::path& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return "free space unknown";
  return fmt::format("{:.1f} MiB free", static_cast<double>(space.available) / (1 << 20));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// A new file beside `path` that takes its place on publish(), and is removed if it never comes to that.
class Replacement {
 public:
  explicit Replacement(const fs::path& path) : path_(path), temporary_(temporary_beside(path)) {}
  ~Replacement() {
    if (!published_) unlink(temporary_.c_str());
  }

  const fs::path& temporary() const { return temporary_; }

  void publish() {
    sync(temporary_, O_RDONLY);
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(std::strerror(errno));
    published_ = true;
    sync(folder_of(path_), O_RDONLY | O_DIRECTORY);
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(fmt::format("[hdf5] {}: cannot be written: {} ({}); the previous file, if any, is untouched",
                            path_.string(), why, free_space(folder_of(path_))));
  }

 private:
  void sync(const fs::path& what, int flags) const {
    const int file = ::open(what.c_str(), flags | O_CLOEXEC);
    int failed = -1;
    if (file >= 0) {
      do failed = fsync(file);
      while (failed && errno == EINTR);
    }
    const bool ok = failed == 0;
    const int error = errno;
    if (file >= 0) ::close(file);
    if (!ok) fail(std::strerror(error));
  }

  fs::path path_, temporary_;
  bool published_ = false;
};

}  // namespace

// ---- open, close ----

File File::open(const fs::path& path) {
  silence();
  File file(path, -1);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) file.fail("no such file");
  if (!fs::is_regular_file(status)) file.fail("not a file");
  if (access(path.c_str(), R_OK) != 0) file.fail(std::strerror(errno));
  if (H5Fis_hdf5(path.c_str()) <= 0) file.fail("not an HDF5 file");
  file.id_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access_list());
  if (file.id_ < 0) file.fail("truncated or damaged HDF5 file");
  return file;
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), id_(std::exchange(other.id_, -1)) {}

File::~File() {
  if (id_ >= 0) H5Fclose(id_);
}

void File::close() {
  const herr_t flushed = H5Fflush(id_, H5F_SCOPE_GLOBAL);
  const herr_t closed = H5Fclose(std::exchange(id_, -1));
  if (flushed < 0 || closed < 0) fail("cannot be completed");
}

void File::fail(const std::string& what) const {
  throw Error("[hdf5] " + path_.string() + ": " + what);
}

// ---- looking around ----

bool File::has(const std::string& name) const {
  // H5Lexists wants every group on the way to exist.
  for (size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string part = name.substr(0, end);
    if (part.empty() || part == "/") return true;
    if (H5Lexists(id_, part.c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

bool File::is_group(const std::string& name) const {
  if (!has(name)) return false;
  const Handle object(H5Oopen(id_, name.c_str(), H5P_DEFAULT), H5Oclose);
  return object.ok() && H5Iget_type(object) == H5I_GROUP;
}

std::vector<std::string> File::list(const std::string& group) const {
  const Handle handle(H5Gopen2(id_, group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!handle.ok()) fail("no group " + group);
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->push_back(name);
    return 0;
  };
  if (H5Literate(handle, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names) < 0)
    fail("group " + group + " is damaged");
  return names;
}

Extent File::shape(const std::string& name) const {
  const Handle set(H5Dopen2(id_, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.ok()) fail("no dataset " + name);
  return extent_of(Handle(H5Dget_space(set), H5Sclose));
}

bool File::holds_text(const std::string& name) const {
  const Handle set(H5Dopen2(id_, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.ok()) fail("no dataset " + name);
  return H5Tget_class(Handle(H5Dget_type(set), H5Tclose)) == H5T_STRING;
}

bool File::holds_integers(const std::string& name) const {
  const Handle set(H5Dopen2(id_, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.ok()) fail("no dataset " + name);
  return H5Tget_class(Handle(H5Dget_type(set), H5Tclose)) == H5T_INTEGER;
}

// ---- datasets ----

template <class T>
void File::read_into(const std::string& name, T* to, const Extent& shape) const {
  const Handle set(H5Dopen2(id_, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.ok()) fail("no dataset " + name);
  const Handle space(H5Dget_space(set), H5Sclose), stored(H5Dget_type(set), H5Tclose);
  const Extent found = extent_of(space);
  if (found != shape) fail(fmt::format("{} has shape {}, expected {}", name, text_of(found), text_of(shape)));
  if (!widens_to<T>(stored)) fail("dataset " + name + " has another element type than expected");
  if (size_of(shape) == 0) return;
  bool ok;
  if constexpr (std::is_same_v<T, std::string>) {
    ok = read_strings(stored, space, size_of(shape), to, [&](hid_t type, void* buffer) {
      return H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer);
    });
  } else {
    ok = H5Dread(set, memory_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, to) >= 0;
  }
  if (!ok) fail("dataset " + name + " cannot be read: the file is damaged");
}

template <class T>
Array<T> File::read(const std::string& name) const {
  Array<T> out;
  out.shape = shape(name);
  out.values.resize(size_of(out.shape));
  read_into(name, out.values.data(), out.shape);
  return out;
}

void File::make_group(const std::string& name) {
  if (has(name)) return;
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const Handle group(H5Gcreate2(id_, name.c_str(), links, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  if (!group.ok()) fail("cannot make group " + name);
}

template <class T>
void File::write(const std::string& name, const T* values, const Extent& shape,
                 const std::vector<std::string>& dims) {
  if (!dims.empty() && dims.size() != shape.size())
    fail(fmt::format("{}: {} dims for shape {}", name, dims.size(), text_of(shape)));
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const Handle type = memory_type<T>(), space = make_space(shape);
  const Handle set(H5Dcreate2(id_, name.c_str(), type, space, links, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  if (!set.ok()) fail("cannot make dataset " + name);
  if (size_of(shape) > 0) {
    herr_t status;
    if constexpr (std::is_same_v<T, std::string>) {
      std::vector<const char*> raw;
      for (int64_t i = 0; i < size_of(shape); ++i) raw.push_back(values[i].c_str());
      status = H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, raw.data());
    } else {
      status = H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    }
    if (status < 0) fail("cannot write dataset " + name);
  }
  if (!dims.empty()) set_attribute(name, "dims", dims);
}

void File::attach_scale(const std::string& name, int axis, const std::string& scale) {
  const Handle set(H5Dopen2(id_, name.c_str(), H5P_DEFAULT), H5Dclose);
  const Handle values(H5Dopen2(id_, scale.c_str(), H5P_DEFAULT), H5Dclose);
  const std::string label = scale.substr(scale.rfind('/') + 1);
  if (!set.ok() || !values.ok()) fail("no dataset " + (set.ok() ? scale : name));
  if (H5DSis_scale(values) <= 0 && H5DSset_scale(values, label.c_str()) < 0)
    fail("cannot make " + scale + " a dimension scale");
  if (H5DSattach_scale(set, values, static_cast<unsigned>(axis)) < 0 ||
      H5DSset_label(set, static_cast<unsigned>(axis), label.c_str()) < 0)
    fail("cannot attach " + scale + " to " + name);
}

#define COPYLAB_H5_TYPE(T)                                                       \
  template void File::read_into<T>(const std::string&, T*, const Extent&) const; \
  template Array<T> File::read<T>(const std::string&) const;                     \
  template void File::write<T>(const std::string&, const T*, const Extent&, const std::vector<std::string>&);
COPYLAB_H5_TYPE(float)
COPYLAB_H5_TYPE(double)
COPYLAB_H5_TYPE(int32_t)
COPYLAB_H5_TYPE(int64_t)
COPYLAB_H5_TYPE(uint8_t)
COPYLAB_H5_TYPE(std::string)
#undef COPYLAB_H5_TYPE

// ---- attributes ----

bool File::has_attribute(const std::string& object, const std::string& name) const {
  return has(object) && H5Aexists_by_name(id_, object.c_str(), name.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> File::attributes(const std::string& object) const {
  const Handle handle(H5Oopen(id_, object.c_str(), H5P_DEFAULT), H5Oclose);
  if (!handle.ok()) fail("no object " + object);
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->push_back(name);
    return 0;
  };
  if (H5Aiterate2(handle, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names) < 0)
    fail("attributes of " + object + " are damaged");
  return names;
}

Attribute File::attribute(const std::string& object, const std::string& name) const {
  if (!has_attribute(object, name)) fail("no attribute " + name + " of " + object);
  const Handle handle(H5Aopen_by_name(id_, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  const Handle space(H5Aget_space(handle), H5Sclose), stored(H5Aget_type(handle), H5Tclose);
  if (!handle.ok() || !space.ok() || !stored.ok())
    fail("attribute " + name + " of " + object + " is damaged");
  const Extent shape = extent_of(space);
  const int64_t n = size_of(shape);
  const auto check = [&](bool ok) {
    if (!ok) fail("attribute " + name + " of " + object + " cannot be read");
  };
  if (widens_to<std::string>(stored)) {
    std::vector<std::string> texts(n);
    check(n == 0 || read_strings(stored, space, n, texts.data(),
                                 [&](hid_t type, void* to) { return H5Aread(handle, type, to); }));
    if (shape.empty()) return texts[0];
    return texts;
  }
  if (H5Tget_class(stored) == H5T_ENUM && shape.empty()) {
    int8_t value = 0;
    check(H5Aread(handle, flag_type(), &value) >= 0);
    return value != 0;
  }
  if (widens_to<int64_t>(stored)) {
    std::vector<int64_t> values(n);
    check(n == 0 || H5Aread(handle, H5T_NATIVE_INT64, values.data()) >= 0);
    if (shape.empty()) return values[0];
    return values;
  }
  double value = 0;
  check(shape.empty() && widens_to<double>(stored) && H5Aread(handle, H5T_NATIVE_DOUBLE, &value) >= 0);
  return value;
}

void File::set_attribute(const std::string& object, const std::string& name, const Attribute& value) {
  const auto put = [&](hid_t type, const Extent& shape, const void* data) {
    if (has_attribute(object, name)) H5Adelete_by_name(id_, object.c_str(), name.c_str(), H5P_DEFAULT);
    const Handle space = make_space(shape);
    const Handle handle(H5Acreate_by_name(id_, object.c_str(), name.c_str(), type, space, H5P_DEFAULT,
                                          H5P_DEFAULT, H5P_DEFAULT),
                        H5Aclose);
    if (!handle.ok() || (size_of(shape) > 0 && H5Awrite(handle, type, data) < 0))
      fail("cannot write attribute " + name + " of " + object);
  };
  struct Visitor {
    decltype(put)& store;
    void operator()(bool v) const {
      const int8_t byte = v;
      store(flag_type(), {}, &byte);
    }
    void operator()(int64_t v) const { store(H5T_NATIVE_INT64, {}, &v); }
    void operator()(double v) const { store(H5T_NATIVE_DOUBLE, {}, &v); }
    void operator()(const std::string& v) const {
      const char* text = v.c_str();
      store(string_type(), {}, &text);
    }
    void operator()(const std::vector<int64_t>& v) const {
      store(H5T_NATIVE_INT64, {static_cast<int64_t>(v.size())}, v.data());
    }
    void operator()(const std::vector<std::string>& v) const {
      std::vector<const char*> texts;
      for (const std::string& text : v) texts.push_back(text.c_str());
      store(string_type(), {static_cast<int64_t>(v.size())}, texts.data());
    }
  };
  std::visit(Visitor{put}, value);
}

// ---- whole files ----

void write_file(const fs::path& path, const std::function<void(File&)>& body) {
  silence();
  Replacement replacement(path);
  errno = 0;
  File file(path, H5Fcreate(replacement.temporary().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access_list()));
  if (file.id_ < 0) {
    // HDF5 keeps the reason to itself; the system call that it failed in says it.
    const int probe = ::open(replacement.temporary().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    const int error = errno;
    if (probe >= 0) ::close(probe);
    replacement.fail(probe < 0 ? std::strerror(error) : "HDF5 could not create it");
  }
  try {
    body(file);
    file.close();
  } catch (const Error& error) {
    const std::string prefix = "[hdf5] " + path.string() + ": ";
    const std::string what = error.what();
    if (what.rfind(prefix, 0) != 0) throw;  // not about this file
    replacement.fail(what.substr(prefix.size()));
  }
  replacement.publish();
}

void write_text(const fs::path& path, const std::string& text) {
  Replacement replacement(path);
  const int file = ::open(replacement.temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) replacement.fail(std::strerror(errno));
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      ::close(file);
      replacement.fail(std::strerror(error));
    }
    done += static_cast<size_t>(n);
  }
  if (::close(file) != 0) replacement.fail(std::strerror(errno));
  replacement.publish();
}

// ---- versions ----

std::string header_version() {
  return fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
}

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

void check_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  expect(major == H5_VERS_MAJOR && minor == H5_VERS_MINOR && release >= H5_VERS_RELEASE, "hdf5",
         "compiled with HDF5 {}, running with {}: rebuild, or load the library it was built with",
         header_version(), library_version());
}

}  // namespace copylab::h5
