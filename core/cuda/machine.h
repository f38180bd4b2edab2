// What kernels ask of the machine they run on besides launches: memory, copies, matrix products, sorting. The
// CUDA backend implements it in machine.cu, blas.cu and sort.cu; the emulator, for tests, on the host.
//
// Everything happens in the order of the calls, as on one CUDA stream. What goes through the recorder
// (recorder.h) may be done later, as part of a recorded step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/cuda/launch.h"

namespace copylab::cuda {

void* allocate(size_t bytes);
void release(void* data);
void fill_zero(void* data, size_t bytes);
void copy(void* to, const void* from, size_t bytes);  // within the device
void copy_to_device(void* to, const void* from, size_t bytes);
void copy_to_host(void* to, const void* from, size_t bytes);  // waits for all that was asked for before

void start(const Launch& launch);  // without the recorder

// Throws an Error "[where] what".
[[noreturn]] void fail(const char* where, const std::string& what);

// Device memory for the length of one kernel's work.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    for (void* block : blocks_) release(block);
  }
  // Uninitialised.
  template <class T>
  T* take(int64_t n) {
    blocks_.push_back(allocate(sizeof(T) * static_cast<size_t>(n)));
    return static_cast<T*>(blocks_.back());
  }

 private:
  std::vector<void*> blocks_;
};

// How float32 matrix products are computed. bf16: operands rounded to bfloat16, sums in float32.
enum class Precision : int { f32, tf32, bf16 };
Precision precision();
void set_precision(Precision precision);

struct Bf16 {  // the upper half of a float32
  uint16_t bits;
};

// A matrix in row-major storage, or, read as transposed, its transpose; `batch` of them `stride` apart.
template <class T>
struct Matrix {
  const T* data;
  int64_t row;  // distance of rows in storage
  bool transposed = false;
  int64_t stride = 0;
  const Bf16* rounded = nullptr;  // the same storage rounded already, for several products at bf16
};

// c (m, n) = a (m, k) · b (k, n), or c += with `add`; for each of a batch.
template <class In, class Out = In>
struct Product {
  int64_t m, n, k;
  Matrix<In> a, b;
  Out* c;
  int64_t c_row, c_stride = 0;
  bool add = false;
  int64_t batch = 1;
};
void blas(const Product<float>&);  // at precision() f32 or tf32
void blas(const Product<double>&);
void blas(const Product<Bf16, float>&);

// Keys (n), not negative, in ascending order, and the position of each before; equal keys keep their order.
void sort(const int32_t* keys, int64_t n, int32_t* sorted, int32_t* order);

// Words on the device where kernels note the first index that lies outside a table, one per IndexUser; all
// ones at the start (kernels/index.h).
uint64_t* index_errors();

}  // namespace copylab::cuda
