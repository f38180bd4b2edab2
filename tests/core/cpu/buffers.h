// Host arrays for kernel tests: random values, guards behind the end, and runs under several thread counts.
#pragma once

#include <omp.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/random.h"
#include "tests/catch.h"

namespace copylab::testing {

// n values and a few guards behind them that must never change.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t n, T value = T(0)) : n_(n), values_(n + kGuards, value) {
    for (int i = 0; i < kGuards; ++i) values_[n + i] = kGuard;
  }
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  int64_t size() const { return n_; }
  T& operator[](int64_t i) { return values_[i]; }
  const T& operator[](int64_t i) const { return values_[i]; }
  bool intact() const {
    for (int i = 0; i < kGuards; ++i) {
      if (values_[n_ + i] != kGuard) return false;
    }
    return true;
  }
  bool same_bits(const Guarded& other) const {
    return n_ == other.n_ && std::memcmp(data(), other.data(), sizeof(T) * n_) == 0;
  }

 private:
  static constexpr int kGuards = 16;
  static constexpr T kGuard = T(77);
  int64_t n_;
  std::vector<T> values_;
};

// Standard normal values times `scale`; the name makes the stream.
template <class T>
Guarded<T> normal(const std::string& name, int64_t n, double scale = 1.0) {
  Guarded<T> x(n);
  const Random random(11, name);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(scale * random.normal(i));
  return x;
}

// Runs f under 1, 2 and 3 threads. f returns a list of Guarded arrays that must have the same bits each time.
template <class F>
void same_for_all_threads(F&& f) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = f();
  for (int threads : {2, 3}) {
    omp_set_num_threads(threads);
    const auto many = f();
    REQUIRE(one.size() == many.size());
    for (size_t i = 0; i < one.size(); ++i) CHECK(one[i].same_bits(many[i]));
  }
  omp_set_num_threads(before);
}

}  // namespace copylab::testing
