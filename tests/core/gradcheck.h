// Gradient-check harness: holds every op's gradient against finite differences, its float32 against its
// float64, and its bits under one thread against several.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/tape.h"
#include "tests/catch.h"

namespace copylab::test {

// A float argument of the op under test. Integer arguments (ids, positions, masks) belong in the op's
// closure, made with tape.constant.
struct Input {
  Shape shape;
  std::vector<double> values;
  bool requires_grad = true;
};

// Philox numbers, the same in every run: normal with mean `shift` and deviation `scale`, or uniform.
Input random_input(Shape shape, std::string_view purpose, double scale = 1.0, double shift = 0.0);
Input uniform_input(Shape shape, std::string_view purpose, double low, double high);
// n whole numbers in low..high-1.
std::vector<int32_t> random_ids(int64_t n, std::string_view purpose, int32_t low, int32_t high);

// An int32 vector on the tape: ids, positions, row indices.
inline Tensor int_tensor(Tape& tape, const std::vector<int32_t>& values) {
  return tape.constant(values, {static_cast<int64_t>(values.size())});
}

// The op under test: a function of (tape, inputs) that returns one tensor, or a vector of them.
class Op {
 public:
  template <class F>
  Op(F f)
      : call_([f = std::move(f)](Tape& tape, const std::vector<Tensor>& x) -> std::vector<Tensor> {
          if constexpr (std::is_same_v<std::decay_t<decltype(f(tape, x))>, Tensor>)
            return {f(tape, x)};
          else
            return f(tape, x);
        }) {}
  std::vector<Tensor> operator()(Tape& tape, const std::vector<Tensor>& x) const { return call_(tape, x); }

 private:
  std::function<std::vector<Tensor>(Tape&, const std::vector<Tensor>&)> call_;
};

// What one forward and backward pass gave. Gradients are what backward added to a random start.
struct OpResult {
  std::vector<std::vector<double>> outputs;
  std::vector<std::vector<double>> gradients;  // per input; empty where the input asked for none
  std::vector<std::string> overruns;           // buffers whose guard values were overwritten
  double loss = 0;                             // sum of output · upstream weight, -inf outputs left out
};

struct CheckOptions {
  double step = 1e-3;       // of the five-point difference, whose error is of order step^4
  double tolerance = 1e-8;  // |analytic - numeric| <= tolerance · (1 + |numeric|)
  bool training = true;
  uint64_t seed = 7;              // of the tape's random streams
  double float_tolerance = 2e-5;  // float32 against float64: |a - b| <= float_tolerance · (1 + largest |b|)
};

// Runs the op in T, with a random upstream weight on every output element (-inf elements included: their
// gradient must come out as zero, not as NaN) and non-zero initial gradients.
template <class T>
OpResult run_op(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options = {},
                bool backward = true);

// Each returns "" or one line that says what differs and where.
//
// float64 gradients against differences for every element of every input; each input alone must get the same
// gradient as all together (null gradients are skipped); guard values must be intact.
std::string gradient_error(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options = {});
std::string float32_error(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options = {});
std::string thread_error(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options = {});

// All three, as Catch checks: what the tests of ops call.
void check_op(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options = {});

// True if f(), a vector of numbers, has the same bits on 1, 2 and 3 threads.
template <class F>
bool same_bits_for_threads(F&& f) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = f();
  bool same = true;
  for (int threads : {2, 3}) {
    omp_set_num_threads(threads);
    const auto many = f();
    same = same && many.size() == one.size() &&
           std::memcmp(many.data(), one.data(), one.size() * sizeof(one[0])) == 0;
  }
  omp_set_num_threads(before);
  return same;
}

// Largest |a - b| / (1 + |b|); infinite when one is NaN or the sizes differ. Equal infinities differ by 0.
template <class A, class B>
double difference(const std::vector<A>& a, const std::vector<B>& b) {
  double worst = a.size() == b.size() ? 0.0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double x = a[i], y = b[i];
    if (x == y) continue;
    const double d = std::abs(x - y) / (1.0 + std::abs(y));
    worst = d <= worst ? worst : (std::isnan(d) ? INFINITY : d);
  }
  return worst;
}

// The message of the Error that f() throws; "" if it throws none.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// An array with guard values on both sides, for calling kernels directly.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::vector<T> values) : size_(values.size()), all_(values.size() + 2 * kGuard, kValue) {
    std::copy(values.begin(), values.end(), data());
  }
  Guarded(int64_t n, T value) : Guarded(std::vector<T>(n, value)) {}
  T* data() { return all_.data() + kGuard; }
  std::vector<T> values() const { return {all_.begin() + kGuard, all_.end() - kGuard}; }
  bool intact() const {
    for (size_t i = 0; i < kGuard; ++i)
      if (all_[i] != kValue || all_[kGuard + size_ + i] != kValue) return false;
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr T kValue = T(113);
  size_t size_;
  std::vector<T> all_;
};

}  // namespace copylab::test
