// The language of device code: compiled by nvcc it is CUDA; compiled by a host compiler it calls an emulator
// that the program has to supply (tests/emulator).
//
// Blocks and grids have one dimension. A block is a whole number of warps, all of whose threads take part in
// every barrier and every exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/cuda/launch.h"
#include "core/cuda/recorder.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define CL_DEVICE __device__ inline  // a function that kernels call
#define CL_KERNEL __global__ void    // a function that launch() starts
// The same with at most so many threads, of which so many blocks fit on a multiprocessor.
#define CL_KERNEL_OF(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define CL_LAMBDA [=] __device__  // a closure that a kernel calls
#define CL_SHARED(type, name, count) __shared__ type name[count]
#define CL_UNROLL _Pragma("unroll")
#define CL_ROLL _Pragma("unroll 1")  // a loop that is to stay one
#else
#define CL_DEVICE inline
#define CL_KERNEL inline void
#define CL_KERNEL_OF(threads, blocks) inline void
#define CL_LAMBDA [=]
#define CL_SHARED(type, name, count) type* const name = ::copylab::cuda::emulator::shared<type>(count)
#define CL_UNROLL
#define CL_ROLL
#endif

namespace copylab::cuda {

constexpr int kWarp = 32;

#if defined(__CUDACC__)

cudaStream_t stream();  // the one stream of this process (machine.cu)

__device__ inline int thread() {
  return static_cast<int>(threadIdx.x);
}
__device__ inline int threads() {
  return static_cast<int>(blockDim.x);
}
__device__ inline int64_t block() {
  return blockIdx.x;
}
__device__ inline void sync_block() {
  __syncthreads();
}
// The value that another lane of the warp gives.
template <class T>
__device__ inline T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
__device__ inline void atomic_min(uint64_t* to, uint64_t value) {
  atomicMin(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

#else

// What an emulator has to supply.
namespace emulator {

struct Place {
  int thread, threads;
  int64_t block;
};
extern constinit thread_local Place place;  // of the CUDA thread that runs on this host thread

void sync_block();
// Each lane of a warp gives `value` and takes that of lane `from`.
void exchange(const void* value, void* taken, size_t bytes, int from);
// Each lane of a warp gives `value` and takes those of all lanes, one after another.
void gather(const void* value, void* taken, size_t bytes);
// Memory of the block: successive calls of a thread give what the other threads' calls gave them.
void* shared_bytes(size_t bytes);
template <class T>
T* shared(size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  return static_cast<T*>(shared_bytes(sizeof(T) * count));
}

}  // namespace emulator

inline int thread() {
  return emulator::place.thread;
}
inline int threads() {
  return emulator::place.threads;
}
inline int64_t block() {
  return emulator::place.block;
}
inline void sync_block() {
  emulator::sync_block();
}
template <class T>
inline T shuffle_xor(T value, int mask) {
  T taken;
  emulator::exchange(&value, &taken, sizeof(T), thread() % kWarp ^ mask);
  return taken;
}
inline void atomic_min(uint64_t* to, uint64_t value) {
  uint64_t now = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (value < now &&
         !__atomic_compare_exchange_n(to, &now, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

#endif

CL_DEVICE int lane() {
  return thread() % kWarp;
}
CL_DEVICE int warp() {
  return thread() / kWarp;
}

#if defined(__CUDACC__)
template <class... Parameters>
constexpr decltype(Launch::thread) kThreadOf = nullptr;
#else
template <class... Parameters, size_t... i>
void run_thread(const void* kernel, void* const* arguments, std::index_sequence<i...>) {
  reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel))(
      *static_cast<Parameters*>(arguments[i])...);
}
template <class... Parameters>
constexpr decltype(Launch::thread) kThreadOf = [](const void* kernel, void* const* arguments) {
  run_thread<Parameters...>(kernel, arguments, std::index_sequence_for<Parameters...>());
};
#endif

// Starts a kernel on a grid; nothing on one without blocks.
template <class... Parameters>
void launch(const Grid& grid, void (*kernel)(Parameters...), std::type_identity_t<Parameters>... values) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  if (grid.blocks == 0) return;
#if __has_builtin(__builtin_clear_padding)
  (__builtin_clear_padding(&values), ...);  // or bytes that mean nothing would look like other arguments
#endif
  void* const arguments[] = {&values..., nullptr};
  const size_t sizes[] = {sizeof(Parameters)..., 0};
  submit({grid, reinterpret_cast<const void*>(kernel), sizeof...(Parameters), arguments, sizes,
          kThreadOf<Parameters...>});
}

}  // namespace copylab::cuda
