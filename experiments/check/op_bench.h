// OpBench: the arrays of one call of a kernel, on one machine; the same call on two machines can be compared.
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/error.h"
#include "core/random.h"

namespace copylab {

using Arrays = std::map<std::string, std::vector<double>>;

// Hands out arrays whose contents depend on their names alone, and are float32 numbers for every T. Gradients
// and outputs, too, start from such numbers: a kernel that overwrites what it should add to is found out.
template <class T>
class OpBench {
 public:
  using Number = T;

  // With `bf16`, inputs are numbers that rounding to bfloat16 leaves alone.
  explicit OpBench(const Backend& backend, bool bf16 = false) : backend_(backend), bf16_(bf16) {}
  ~OpBench() {
    for (const auto& [name, array] : arrays_) backend_.release(array.data);
  }
  OpBench(const OpBench&) = delete;
  OpBench& operator=(const OpBench&) = delete;

  const KernelTable<T>& kernels() const { return backend_.kernels<T>(); }

  // Standard normal numbers times `scale`, or null where not `wanted`.
  T* numbers(const std::string& name, int64_t n, bool wanted = true, double scale = 1) {
    if (!wanted) return nullptr;
    const Random random(17, name);
    std::vector<T> host(n);
    for (int64_t i = 0; i < n; ++i) {
      host[i] = static_cast<float>(scale * random.normal(i));
      if (bf16_) host[i] = rounded(host[i]);
    }
    return place(name, host);
  }
  // Integers low..high-1.
  int32_t* integers(const std::string& name, int64_t n, int64_t low, int64_t high, bool wanted = true) {
    if (!wanted) return nullptr;
    const Random random(18, name);
    std::vector<int32_t> host(n);
    for (int64_t i = 0; i < n; ++i) host[i] = static_cast<int32_t>(low + random.below(i, high - low));
    return place(name, host);
  }
  // Ones with this probability, else zeros.
  uint8_t* flags(const std::string& name, int64_t n, double share, bool wanted = true) {
    if (!wanted) return nullptr;
    const Random random(19, name);
    std::vector<uint8_t> host(n);
    for (int64_t i = 0; i < n; ++i) host[i] = random.uniform(i) < share;
    return place(name, host);
  }
  template <class X>
  X* place(const std::string& name, std::vector<X> host) {
    expect(arrays_.count(name) == 0, "bench", "two arrays named {}", name);
    host.resize(host.size() + kGuards, static_cast<X>(kGuard));
    Array array{nullptr, static_cast<int64_t>(host.size()), host_copy<X>};
    array.data = backend_.allocate(sizeof(X) * host.size());
    backend_.copy_in(array.data, host.data(), sizeof(X) * host.size());
    arrays_[name] = array;
    return static_cast<X*>(array.data);
  }
  // A number that a kernel returned.
  void result(const std::string& name, double value) { results_[name] = {value}; }

  // All arrays as they are now; an Error if a kernel wrote behind one.
  Arrays contents() const {
    Arrays out = results_;
    for (const auto& [name, array] : arrays_) {
      std::vector<double>& values = out[name] = array.to_host(backend_, array);
      for (int i = 0; i < kGuards; ++i, values.pop_back())
        expect(values.back() == kGuard, "bench", "a kernel wrote behind the end of {}", name);
    }
    return out;
  }

 private:
  static T rounded(T x) {
    int exponent;
    std::frexp(x, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(x, 8 - exponent)), exponent - 8);
  }

  static constexpr int kGuards = 16;
  static constexpr double kGuard = 77;
  struct Array {
    void* data;
    int64_t size;
    std::vector<double> (*to_host)(const Backend& backend, const Array& array);
  };
  template <class X>
  static std::vector<double> host_copy(const Backend& backend, const Array& array) {
    std::vector<X> host(array.size);
    backend.copy_out(host.data(), array.data, sizeof(X) * host.size());
    return std::vector<double>(host.begin(), host.end());
  }

  const Backend& backend_;
  const bool bf16_;
  std::map<std::string, Array> arrays_;
  Arrays results_;
};

}  // namespace copylab
