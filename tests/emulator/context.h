// Context: a place in a computation that another can switch to, on a stack of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace copylab::cuda::emulator {

#if defined(__x86_64__)

// Saves what a call must preserve (System V ABI) on this stack, and takes it from the other.
extern "C" void copylab_switch_stack(void** save, void* load);

class Context {
 public:
  // Begins at entry(), which must never return, on a stack of `size` bytes.
  void start(void* stack, size_t size, void (*entry)()) {
    uintptr_t* top = reinterpret_cast<uintptr_t*>(reinterpret_cast<uintptr_t>(stack) + size / 16 * 16);
    *--top = 0;  // entry() finds the stack as after a call
    *--top = reinterpret_cast<uintptr_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0;  // the registers that the switch takes
    pointer_ = top;
  }
  // Goes on with `to`, until something switches back here.
  void switch_to(Context& to) { copylab_switch_stack(&pointer_, to.pointer_); }

 private:
  void* pointer_ = nullptr;
};

#else

class Context {
 public:
  void start(void* stack, size_t size, void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = size;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
  }
  void switch_to(Context& to) { swapcontext(&context_, &to.context_); }

 private:
  ucontext_t context_;
};

#endif

}  // namespace copylab::cuda::emulator
