// Calls of every kernel on odd shapes, with every optional argument there and not: what machines are compared
// on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/check/op_bench.h"

namespace copylab {

struct OpCase {
  std::string entry;    // of KernelTable; a case of "linear" calls linear_backward as well, if that exists
  std::string variant;  // shape and options
  bool tiny;            // few enough blocks and threads for ThreadSanitizer
  std::function<void(OpBench<float>&)> f32;
  std::function<void(OpBench<double>&)> f64;

  template <class T>
  Arrays run(const Backend& backend, bool bf16 = false) const;
};

// At least one per entry of KernelTable.
std::vector<OpCase> op_cases();

// How far two machines are apart: the largest difference in an array, relative to its largest number, of all
// arrays. Infinite where one has NaN, an infinity or another integer, and the other not.
struct OpError {
  double error = 0;
  std::string array;
};
OpError op_error(const Arrays& got, const Arrays& exact);

template <class T>
Arrays OpCase::run(const Backend& backend, bool bf16) const {
  OpBench<T> bench(backend, bf16);
  if constexpr (sizeof(T) == 4)
    f32(bench);
  else
    f64(bench);
  return bench.contents();
}

}  // namespace copylab
