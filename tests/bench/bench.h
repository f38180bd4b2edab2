// What the benchmarks share: random operands, Eigen as the peer, and rates as counters.
#pragma once

#include <benchmark/benchmark.h>

#include <omp.h>
#include <time.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/random.h"

namespace copylab::bench {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Matrix = Eigen::Map<RowMajor<T>>;
template <class T>
using ConstMatrix = Eigen::Map<const RowMajor<T>>;

inline std::vector<float> normal(const std::string& name, int64_t n, double scale = 1.0) {
  std::vector<float> x(n);
  const Random random(1, name);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(scale * random.normal(i));
  return x;
}

// Wall time of f.
template <class F>
double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
// Processor time of f on this thread: what other programs take does not count. For work on one thread.
template <class F>
double thread_seconds(F&& f) {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const double start = now();
  f();
  return now() - start;
}

// The number of OpenMP threads while this lives; 0 = as before.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) {
    if (count > 0) omp_set_num_threads(count);
  }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// Times `ours` and `peer` by turns and reports from the fastest run of
// each: GFLOP/s, the peer's GFLOP/s, and `ratio` = ours / peer. On one thread: Eigen is built without threads
// here.
template <class Ours, class Peer>
void compare(benchmark::State& state, double flop, Ours&& ours, Peer&& peer) {
  const Threads one(1);
  double best = 1e300, peer_best = 1e300;
  for (auto _ : state) {
    const double t = thread_seconds(ours);
    peer_best = std::min(peer_best, thread_seconds(peer));
    best = std::min(best, t);
    state.SetIterationTime(t);
  }
  state.counters["GFLOP/s"] = flop / best * 1e-9;
  state.counters["peer_GFLOP/s"] = flop / peer_best * 1e-9;
  state.counters["ratio"] = peer_best / best;
}

}  // namespace copylab::bench
