// The CPU backend: host memory and the table of its kernels.
#include "core/backend.h"

#include <cstdlib>
#include <cstring>

#include "core/cpu/kernels.h"
#include "core/error.h"

namespace copylab {
namespace {

void* allocate(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, size ? size : kAlignment);
  expect(data != nullptr, "cpu", "out of memory: {} bytes were asked for", bytes);
  return data;
}

void copy(void* to, const void* from, size_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
}

template <class T>
KernelTable<T> table() {
  KernelTable<T> k{};
  cpu::fill_linear(k);
  cpu::fill_lm_head(k);
  cpu::fill_rows(k);
  cpu::fill_norms(k);
  cpu::fill_rope(k);
  cpu::fill_attention(k);
  cpu::fill_pointer(k);
  cpu::fill_copy_mixture(k);
  cpu::fill_lstm(k);
  cpu::fill_elementwise(k);
  cpu::fill_reduce(k);
  cpu::fill_optim(k);
  return k;
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend backend{"cpu",
                               allocate,
                               [](void* data) { std::free(data); },
                               [](void* data, size_t bytes) { std::memset(data, 0, bytes); },
                               copy,
                               copy,
                               table<float>(),
                               table<double>()};
  return backend;
}

}  // namespace copylab
