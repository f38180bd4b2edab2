// The language of device code: compiled by nvcc it is CUDA; compiled by a host compiler it calls an emulator
// that the program has to supply (tests/emulator).
//
// Blocks and grids have one dimension. A block is a whole number of warps, all of whose threads take part in
// every barrier and every exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define CL_DEVICE __device__ inline  // a function that kernels call
#define CL_KERNEL __global__ void    // a function that launch() starts
#define CL_LAMBDA [=] __device__     // a closure that a kernel calls
#define CL_SHARED(type, name, count) __shared__ type name[count]
#define CL_UNROLL _Pragma("unroll")
#else
#include <type_traits>
#define CL_DEVICE inline
#define CL_KERNEL inline void
#define CL_LAMBDA [=]
#define CL_SHARED(type, name, count) type* const name = ::copylab::cuda::emulator::shared<type>(count)
#define CL_UNROLL
#endif

namespace copylab::cuda {

constexpr int kWarp = 32;

// How many blocks of how many threads, and the line that asked for them, for errors.
struct Grid {
  Grid(int64_t blocks_, int threads_, std::source_location where_ = std::source_location::current())
      : blocks(blocks_), threads(threads_), where(where_) {}
  int64_t blocks;
  int threads;
  std::source_location where;
};

#if defined(__CUDACC__)

cudaStream_t stream();                // the one stream of this process (machine.cu)
void check_launch(const Grid& grid);  // throws Error if the launch failed

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

template <class... Parameters, class... Arguments>
void launch(const Grid& grid, void (*kernel)(Parameters...), Arguments... arguments) {
  if (grid.blocks == 0) return;
  kernel<<<static_cast<unsigned>(grid.blocks), grid.threads, 0, stream()>>>(
      static_cast<Parameters>(arguments)...);
  check_launch(grid);
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
// Memory of the block: successive calls of a thread give what the other threads' calls gave them.
void* shared_bytes(size_t bytes);
// Runs call(closure) once for each thread of the grid.
void run(const Grid& grid, void (*call)(const void*), const void* closure);

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

template <class... Parameters, class... Arguments>
void launch(const Grid& grid, void (*kernel)(Parameters...), Arguments... arguments) {
  if (grid.blocks == 0) return;
  const auto closure = [&] { kernel(static_cast<Parameters>(arguments)...); };
  emulator::run(
      grid, [](const void* f) { (*static_cast<decltype(closure)*>(f))(); }, &closure);
}

#endif

CL_DEVICE int lane() {
  return thread() % kWarp;
}
CL_DEVICE int warp() {
  return thread() / kWarp;
}

}  // namespace copylab::cuda
