// Runs the grids of device code, with a block's threads as fibers.
#include "tests/emulator/emulator.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/cuda/device.h"
#include "core/error.h"
#include "tests/emulator/context.h"
#if defined(COPYLAB_RACES)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
asm(R"(
.text
.globl copylab_switch_stack
.type copylab_switch_stack, @function
copylab_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size copylab_switch_stack, .-copylab_switch_stack
)");
#endif

namespace copylab::cuda::emulator {

constinit thread_local Place place{};

namespace {

constexpr int kMostThreads = 1024;
constexpr size_t kSharedBytes = 48 << 10;  // what a block may have without asking for more
constexpr size_t kStackBytes = 64 << 10;
constexpr size_t kExchangeBytes = 24;

Mode current_mode = Mode::forward;

// What ThreadSanitizer, where the program has it, is told: each fiber is a thread of its own, and nothing but
// barriers, the start and the end of a grid put what they do in an order. This file itself is not
// instrumented.
#if defined(COPYLAB_RACES)
constexpr int kThreadsAtOnce = 512;  // blocks side by side, so that races between them show
void* new_fiber() {
  return __tsan_create_fiber(0);
}
void* this_fiber() {
  return __tsan_get_current_fiber();
}
void switch_fiber(void* to) {
  __tsan_switch_to_fiber(to, __tsan_switch_to_fiber_no_sync);
}
void give_order(char* clock) {
  __tsan_release(clock);
}
void take_order(char* clock) {
  __tsan_acquire(clock);
}
#else
constexpr int kThreadsAtOnce = 1;
void* new_fiber() {
  return nullptr;
}
void* this_fiber() {
  return nullptr;
}
void switch_fiber(void*) {}
void give_order(char*) {}
void take_order(char*) {}
#endif

// A barrier: who waits for a turn may go on once `turn` is another. Turns have two clocks, one after the
// other: nobody comes to the next but one before all have left this one.
struct Turns {
  int arrived = 0;
  uint64_t turn = 0;
  char clocks[2] = {};
};

// What the threads of a block share.
struct Block {
  int threads;
  int64_t index;
  std::vector<std::byte> shared = std::vector<std::byte>(kSharedBytes, std::byte{0xff});
  std::vector<std::byte> exchanged[2];
  Turns turns, warp_turns[kMostThreads / kWarp];

  Block(int threads_, int64_t index_) : threads(threads_), index(index_) {
    for (auto& slots : exchanged) slots.resize(static_cast<size_t>(threads) * kExchangeBytes);
  }
};

struct Thread {
  Block* block = nullptr;
  size_t shared_used = 0;
  unsigned exchanges = 0;
  Context context;
  void* fiber = nullptr;
  bool done = false;
  Turns* waits_at = nullptr;
  uint64_t waits_since = 0;
};
thread_local Thread* self = nullptr;

struct Fibers {
  std::vector<Thread> threads = std::vector<Thread>(kMostThreads);
  std::vector<std::byte> stacks = std::vector<std::byte>(kMostThreads * kStackBytes);
  Context scheduler;
  void* scheduler_fiber = this_fiber();
  char start = 0, end = 0;  // clocks
  const Launch* launch = nullptr;
};
Fibers& fibers() {
  static Fibers instance;
  return instance;
}

void to_scheduler() {
  switch_fiber(fibers().scheduler_fiber);
  self->context.switch_to(fibers().scheduler);
}

void fiber_main() {
  Fibers& f = fibers();
  take_order(&f.start);
  f.launch->thread(f.launch->kernel, f.launch->arguments);
  give_order(&f.end);
  self->done = true;
  to_scheduler();
}

void wait_for_turn(Turns& turns, int threads) {
  char* clock = &turns.clocks[turns.turn % 2];
  give_order(clock);
  if (++turns.arrived == threads) {
    turns.arrived = 0;
    ++turns.turn;
  } else {
    self->waits_at = &turns;
    self->waits_since = turns.turn;
    to_scheduler();
  }
  take_order(clock);
}

// Runs a block on the fibers from `first` on.
void run_block(const Grid& grid, Block& block, int first) {
  Fibers& f = fibers();
  for (int i = 0; i < grid.threads; ++i) {
    Thread& t = f.threads[first + i];
    t.block = &block;
    t.shared_used = 0;
    t.exchanges = 0;
    t.done = false;
    t.waits_at = nullptr;
    if (!t.fiber) t.fiber = new_fiber();
    t.context.start(f.stacks.data() + (first + i) * kStackBytes, kStackBytes, fiber_main);
  }
  for (int left = grid.threads; left > 0;) {
    bool moved = false;
    for (int k = 0; k < grid.threads; ++k) {
      const int i = current_mode == Mode::reversed ? grid.threads - 1 - k : k;
      Thread& t = f.threads[first + i];
      if (t.done || (t.waits_at && t.waits_at->turn == t.waits_since)) continue;
      t.waits_at = nullptr;
      self = &t;
      place = {i, grid.threads, block.index};
      switch_fiber(t.fiber);
      f.scheduler.switch_to(t.context);
      left -= t.done;
      moved = true;
    }
    expect(moved, "emulator", "{}:{}: threads of block {} wait at a barrier that others never reach",
           grid.where.file_name(), grid.where.line(), block.index);
  }
  self = nullptr;
}

void sync_warp() {
  wait_for_turn(self->block->warp_turns[place.thread / kWarp], kWarp);
}

// Gives `value` to the other lanes; returns the slots of the warp, where all have given theirs. Two buffers
// in turn: who writes the next value has passed a barrier behind which all have read this one.
const std::byte* give(const void* value, size_t bytes) {
  expect(bytes <= kExchangeBytes, "emulator", "an exchange of {} bytes", bytes);
  std::byte* slots = self->block->exchanged[self->exchanges++ % 2].data();
  std::memcpy(slots + place.thread * kExchangeBytes, value, bytes);
  sync_warp();
  return slots + place.thread / kWarp * kWarp * kExchangeBytes;
}

}  // namespace

Mode mode() {
  return current_mode;
}
void set_mode(Mode mode) {
  current_mode = mode;
}

void sync_block() {
  wait_for_turn(self->block->turns, self->block->threads);
}

void exchange(const void* value, void* taken, size_t bytes, int from) {
  std::memcpy(taken, give(value, bytes) + from * kExchangeBytes, bytes);
}
void gather(const void* value, void* taken, size_t bytes) {
  const std::byte* slots = give(value, bytes);
  for (int i = 0; i < kWarp; ++i)
    std::memcpy(static_cast<std::byte*>(taken) + i * bytes, slots + i * kExchangeBytes, bytes);
}

void* shared_bytes(size_t bytes) {
  void* out = self->block->shared.data() + self->shared_used;
  self->shared_used += (bytes + 15) / 16 * 16;
  expect(self->shared_used <= kSharedBytes, "emulator", "more than {} bytes of shared memory", kSharedBytes);
  return out;
}

void run(const Launch& launch) {
  const Grid& grid = launch.grid;
  expect(grid.threads > 0 && grid.threads % kWarp == 0 && grid.threads <= kMostThreads && grid.blocks > 0 &&
             grid.blocks < int64_t{1} << 31,
         "emulator", "{}:{}: a grid of {} blocks of {} threads", grid.where.file_name(), grid.where.line(),
         grid.blocks, grid.threads);
  const DeviceAccess access;
  Fibers& f = fibers();
  f.launch = &launch;
  const int64_t at_once = std::max(1, kThreadsAtOnce / grid.threads);
  std::vector<std::unique_ptr<Block>> blocks;
  for (int64_t i = 0; i < std::min(at_once, grid.blocks); ++i)
    blocks.push_back(std::make_unique<Block>(grid.threads, 0));
  for (int64_t begin = 0; begin < grid.blocks; begin += at_once) {
    const int64_t count = std::min(at_once, grid.blocks - begin);
    for (int64_t i = 0; i < count; ++i) {
      blocks[i]->index = current_mode == Mode::reversed ? grid.blocks - 1 - begin - i : begin + i;
      std::memset(blocks[i]->shared.data(), 0xff, kSharedBytes);
    }
    give_order(&f.start);
    for (int64_t i = 0; i < count; ++i) run_block(grid, *blocks[i], static_cast<int>(i) * grid.threads);
    take_order(&f.end);
  }
}

}  // namespace copylab::cuda::emulator
