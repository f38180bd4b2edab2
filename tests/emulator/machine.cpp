// What kernels ask of a machine, on the host: memory that only kernels and copies may touch, Eigen for matrix
// products, a stable sort.
#include "core/cuda/machine.h"

#include <sys/mman.h>
#include <Eigen/Core>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "core/cuda/caching_allocator.h"
#include "core/cuda/recorder.h"
#include "core/error.h"
#include "tests/emulator/emulator.h"

namespace copylab::cuda {
namespace {

constexpr size_t kReserved = size_t{16} << 30;  // address space, not memory

// Memory that is closed to the host but for the lifetime of a DeviceAccess.
class DeviceMemory {
 public:
  DeviceMemory() : allocator_([this](size_t size) { return take(size); }, [](void*) {}) {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    expect(base_ != MAP_FAILED, "emulator", "cannot reserve address space");
  }
  void* allocate(size_t bytes) {
    void* data = allocator_.allocate(bytes);
    expect(data != nullptr, "emulator", "out of memory: {} bytes were asked for", bytes);
    open();
    std::memset(data, 0xff, bytes);  // NaN: nobody may count on zeros
    close();
    return data;
  }
  void release(void* data) {
    expect(!data || allocator_.release(data), "emulator", "memory is released that was not allocated");
  }
  void open() {
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() {
    if (--depth_ == 0) protect(PROT_NONE);
  }

 private:
  void* take(size_t size) {
    if (used_ + size > kReserved) return nullptr;
    void* data = base_ + used_;
    used_ += size;
    if (depth_ > 0) protect(PROT_READ | PROT_WRITE);  // what was opened before was less
    return data;
  }
  void protect(int how) {
    constexpr size_t kPage = 4096;
    if (used_ > 0) mprotect(base_, (used_ + kPage - 1) / kPage * kPage, how);
  }

  CachingAllocator allocator_;
  std::byte* base_;
  size_t used_ = 0;
  int depth_ = 0;
};

DeviceMemory& memory() {
  static DeviceMemory instance;
  return instance;
}

Precision chosen_precision = Precision::f32;

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>>;

// One matrix of a batch, as stored.
template <class T>
Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>> stored(const T* data, int64_t row, int64_t rows,
                                                              int64_t columns) {
  return {data, rows, columns, Eigen::OuterStride<>(row)};
}

float widen(Bf16 x) {
  const uint32_t bits = uint32_t{x.bits} << 16;
  float out;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
}

// Does `command`, now or as part of a recorded step.
void perform(const char* what, std::initializer_list<int64_t> key, std::function<void()> command) {
  if (!wanted(what, key)) return;
  emulator::perform([command = std::move(command)] {
    const emulator::DeviceAccess access;
    command();
  });
}

template <class In, class Out>
void perform(const Product<In, Out>& p, std::function<void()> command) {
  perform("multiply",
          {p.m, p.n, p.k, key_of(p.a.data), p.a.row, p.a.transposed, p.a.stride, key_of(p.b.data), p.b.row,
           p.b.transposed, p.b.stride, key_of(p.c), p.c_row, p.c_stride, p.add, p.batch},
          std::move(command));
}

template <class T>
void multiply_on_host(const Product<T>& p) {
  for (int64_t i = 0; i < p.batch; ++i) {
    const auto operand = [i](const Matrix<T>& x, int64_t rows, int64_t columns) -> RowMajor<T> {
      const T* data = x.data + i * x.stride;
      if (x.transposed) return stored(data, x.row, columns, rows).transpose();
      return stored(data, x.row, rows, columns);
    };
    View<T> c(p.c + i * p.c_stride, p.m, p.n, Eigen::OuterStride<>(p.c_row));
    const RowMajor<T> product = operand(p.a, p.m, p.k) * operand(p.b, p.k, p.n);
    if (p.add)
      c += product;
    else
      c = product;
  }
}

void multiply_on_host(const Product<Bf16, float>& p) {
  std::vector<float> a, b;
  const auto widened = [&](const Matrix<Bf16>& x, int64_t rows, int64_t columns, std::vector<float>& to) {
    const int64_t size = (p.batch - 1) * x.stride + ((x.transposed ? columns : rows) - 1) * x.row +
                         (x.transposed ? rows : columns);
    to.resize(size);
    std::transform(x.data, x.data + size, to.begin(), widen);
    return Matrix<float>{to.data(), x.row, x.transposed, x.stride};
  };
  multiply_on_host<float>({.m = p.m,
                           .n = p.n,
                           .k = p.k,
                           .a = widened(p.a, p.m, p.k, a),
                           .b = widened(p.b, p.k, p.n, b),
                           .c = p.c,
                           .c_row = p.c_row,
                           .c_stride = p.c_stride,
                           .add = p.add,
                           .batch = p.batch});
}

}  // namespace

namespace emulator {
DeviceAccess::DeviceAccess() {
  memory().open();
}
DeviceAccess::~DeviceAccess() {
  memory().close();
}
}  // namespace emulator

void* allocate(size_t bytes) {
  return memory().allocate(bytes);
}
void release(void* data) {
  memory().release(data);
}
void fill_zero(void* data, size_t bytes) {
  perform("fill_zero", {key_of(data), static_cast<int64_t>(bytes)}, [=] { std::memset(data, 0, bytes); });
}
void copy(void* to, const void* from, size_t bytes) {
  perform("copy", {key_of(to), key_of(from), static_cast<int64_t>(bytes)},
          [=] { std::memcpy(to, from, bytes); });
}
void copy_to_device(void* to, const void* from, size_t bytes) {
  if (postponed(to, from, bytes)) return;
  const emulator::DeviceAccess access;
  if (bytes) std::memcpy(to, from, bytes);
}
void copy_to_host(void* to, const void* from, size_t bytes) {
  expect_no_recording();
  const emulator::DeviceAccess access;
  if (bytes) std::memcpy(to, from, bytes);
}

Precision precision() {
  return chosen_precision;
}
void set_precision(Precision precision) {
  chosen_precision = precision;
}

void blas(const Product<float>& p) {
  perform(p, [p] { multiply_on_host(p); });
}
void blas(const Product<double>& p) {
  perform(p, [p] { multiply_on_host(p); });
}
void blas(const Product<Bf16, float>& p) {
  perform(p, [p] { multiply_on_host(p); });
}

void sort(const int32_t* keys, int64_t n, int32_t* sorted, int32_t* order) {
  perform("sort", {key_of(keys), n, key_of(sorted), key_of(order)}, [=] {
    std::iota(order, order + n, 0);
    std::stable_sort(order, order + n, [keys](int32_t a, int32_t b) { return keys[a] < keys[b]; });
    for (int64_t i = 0; i < n; ++i) sorted[i] = keys[order[i]];
  });
}

uint64_t* index_errors() {
  static uint64_t* const words = [] {
    constexpr size_t kBytes = 256;
    return static_cast<uint64_t*>(allocate(kBytes));  // filled with ones
  }();
  return words;
}

}  // namespace copylab::cuda
