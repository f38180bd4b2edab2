// Loops over arrays in whole SIMD vectors with one partial vector at the end, written once for both.
#pragma once

#include "core/cpu/simd.h"

namespace copylab::cpu {

// Where a vector lies in the arrays of a loop: at `i`, all lanes, or the first `count` at the arrays' end.
template <class T, bool kWhole>
struct Lanes {
  int64_t i;
  int64_t count;

  // Lanes behind `count` are `fill`.
  simd::Vec<T> load(const T* p, T fill = T(0)) const {
    return kWhole ? simd::load(p + i) : simd::load_partial(p + i, count, fill);
  }
  void store(T* p, simd::Vec<T> x) const {
    kWhole ? simd::store(p + i, x) : simd::store_partial(p + i, x, count);
  }
  void add(T* p, simd::Vec<T> x) const { store(p, load(p) + x); }
};

// f(lanes) for begin..end-1 in order.
template <class T, class F>
inline void for_lanes(int64_t begin, int64_t end, F&& f) {
  constexpr int64_t kStep = simd::kLanes<T>;
  int64_t i = begin;
  for (; i + kStep <= end; i += kStep) f(Lanes<T, true>{i, kStep});
  if (i < end) f(Lanes<T, false>{i, end - i});
}

}  // namespace copylab::cpu
