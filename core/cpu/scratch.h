// Scratch: working memory of a kernel, kept by its thread between calls so that it is mapped only once.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace copylab::cpu {

// Room for `count` numbers, 64-byte aligned and uninitialised, valid until this thread's next call with the
// same `Tag` and T. Tags keep the buffers of nested uses apart.
template <class Tag, class T>
T* scratch(int64_t count) {
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  static thread_local std::unique_ptr<T, Free> buffer;
  static thread_local int64_t capacity = 0;
  if (count > capacity) {
    constexpr size_t kAlignment = 64;
    const size_t bytes = (sizeof(T) * static_cast<size_t>(count) + kAlignment - 1) / kAlignment * kAlignment;
    buffer.reset();
    capacity = 0;
    buffer.reset(static_cast<T*>(std::aligned_alloc(kAlignment, bytes)));
    if (!buffer) throw std::bad_alloc();
    capacity = count;
  }
  return buffer.get();
}

}  // namespace copylab::cpu
