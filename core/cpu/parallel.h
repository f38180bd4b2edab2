// Parallel loops of the CPU backend. Work is cut by shape, never by thread count, so that results have the
// same bits for any number of threads.
#pragma once

#include <omp.h>

#include <cstdint>

namespace copylab::cpu {

// Below this many elementary operations a loop runs on one thread: a parallel region costs a few
// microseconds.
constexpr int64_t kMinParallelWork = 1 << 15;

// f(task) for task = 0..tasks-1, in any order and on any thread; tasks must write to disjoint places.
// `work` is the total number of elementary operations, to decide whether threads are worth waking.
template <class F>
void parallel_for(int64_t tasks, int64_t work, F&& f) {
  if (tasks <= 1 || work < kMinParallelWork || omp_in_parallel()) {
    for (int64_t task = 0; task < tasks; ++task) f(task);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t task = 0; task < tasks; ++task) f(task);
}

// f(begin, end) over 0..n-1 in chunks of a fixed size.
template <class F>
void parallel_chunks(int64_t n, int64_t chunk, F&& f) {
  const int64_t tasks = (n + chunk - 1) / chunk;
  parallel_for(tasks, n, [&](int64_t task) {
    const int64_t begin = task * chunk;
    f(begin, begin + chunk < n ? begin + chunk : n);
  });
}

}  // namespace copylab::cpu
