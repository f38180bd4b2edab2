// The GPU as a machine for kernels: one device, one stream, cached memory, copies.
#include "core/cuda/machine.h"

#include <limits>

#include "core/cuda/caching_allocator.h"
#include "core/cuda/check.h"
#include "core/cuda/device.h"

namespace copylab::cuda {
namespace {

class Stream {
 public:
  Stream() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_;
};

void* take(size_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears it
    return nullptr;
  }
  check(error, "cudaMalloc(&data, bytes)", __FILE__, __LINE__);
  return data;
}

// Never destroyed: arrays that live as long as the program release into it.
CachingAllocator& memory() {
  static CachingAllocator* const instance = new CachingAllocator(take, [](void* data) {
    cudaStreamSynchronize(stream());  // kernels may still use it
    cudaFree(data);
  });
  return *instance;
}

Precision chosen_precision = Precision::f32;

}  // namespace

cudaStream_t stream() {
  static Stream* const instance = new Stream;
  return instance->get();
}

void start(const Launch& launch) {
  const auto failed = [&](const std::string& why) {
    const Grid& grid = launch.grid;
    fail("cuda", "launch of " + std::to_string(grid.blocks) + " blocks of " + std::to_string(grid.threads) +
                     " threads: " + why + " (" + grid.where.file_name() + ":" +
                     std::to_string(grid.where.line()) + ")");
  };
  if (launch.grid.blocks > std::numeric_limits<int32_t>::max()) failed("too many blocks");
  const cudaError_t error = cudaLaunchKernel(launch.kernel, dim3(static_cast<unsigned>(launch.grid.blocks)),
                                             dim3(static_cast<unsigned>(launch.grid.threads)),
                                             const_cast<void**>(launch.arguments), 0, stream());
  if (error != cudaSuccess) failed(cudaGetErrorString(error));
}

void* allocate(size_t bytes) {
  void* data = memory().allocate(bytes);
  if (data) return data;
  size_t free = 0, all = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &all));
  fail("cuda", "out of memory: " + std::to_string(bytes) + " bytes were asked for, " +
                   std::to_string(memory().active()) + " are in use, " + std::to_string(free) + " of " +
                   std::to_string(all) + " are free");
}

void release(void* data) {
  if (data && !memory().release(data)) fail("cuda", "memory is released that was not allocated");
}

void fill_zero(void* data, size_t bytes) {
  if (bytes && wanted("fill_zero", {key_of(data), static_cast<int64_t>(bytes)}))
    CUDA_CHECK(cudaMemsetAsync(data, 0, bytes, stream()));
}
void copy(void* to, const void* from, size_t bytes) {
  if (bytes && wanted("copy", {key_of(to), key_of(from), static_cast<int64_t>(bytes)}))
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()));
}
void copy_to_device(void* to, const void* from, size_t bytes) {
  // The host's array is pageable: it has been read when this returns.
  if (bytes && !postponed(to, from, bytes))
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream()));
}
void copy_to_host(void* to, const void* from, size_t bytes) {
  expect_no_recording();
  if (bytes) CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()));
  CUDA_CHECK(cudaStreamSynchronize(stream()));
}

Precision precision() {
  return chosen_precision;
}
void set_precision(Precision precision) {
  chosen_precision = precision;
}

uint64_t* index_errors() {
  static uint64_t* const words = [] {
    constexpr size_t kBytes = 256;
    void* data = allocate(kBytes);
    CUDA_CHECK(cudaMemsetAsync(data, 0xff, kBytes, stream()));
    return static_cast<uint64_t*>(data);
  }();
  return words;
}

}  // namespace copylab::cuda
