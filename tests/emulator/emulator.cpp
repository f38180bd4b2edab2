// Runs the grids of device code, with a block's threads as fibers or as threads of the host.
#include "tests/emulator/emulator.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/cuda/device.h"
#include "core/error.h"
#include "tests/emulator/context.h"

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
constexpr size_t kExchangeBytes = 16;

Mode current_mode = Mode::fibers;

class PthreadBarrier {
 public:
  explicit PthreadBarrier(int threads) { pthread_barrier_init(&barrier_, nullptr, threads); }
  ~PthreadBarrier() { pthread_barrier_destroy(&barrier_); }
  PthreadBarrier(const PthreadBarrier&) = delete;
  PthreadBarrier& operator=(const PthreadBarrier&) = delete;
  void wait() { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

// What the threads of a block share.
struct Block {
  int threads;
  int64_t index;
  std::vector<std::byte> shared = std::vector<std::byte>(kSharedBytes, std::byte{0xff});
  std::vector<std::byte> exchanged[2];
  std::unique_ptr<PthreadBarrier> barrier;                     // threads
  std::vector<std::unique_ptr<PthreadBarrier>> warp_barriers;  // threads

  Block(int threads_, int64_t index_) : threads(threads_), index(index_) {
    for (auto& slots : exchanged) slots.resize(static_cast<size_t>(threads) * kExchangeBytes);
  }
};

// A barrier of fibers: a fiber that waits for a turn may go on once `turn` is another.
struct Turns {
  int arrived = 0;
  uint64_t turn = 0;
};

struct Thread {
  Block* block = nullptr;
  size_t shared_used = 0;
  unsigned exchanges = 0;
  bool uses_fibers = false;
  // Of a fiber:
  Context context;
  bool done = false;
  Turns* waits_at = nullptr;
  uint64_t waits_since = 0;
};
thread_local Thread* self = nullptr;

// ---- fibers
// --------------------------------------------------------------------------------------------------

struct Fibers {
  std::vector<Thread> threads = std::vector<Thread>(kMostThreads);
  std::vector<std::byte> stacks = std::vector<std::byte>(kMostThreads * kStackBytes);
  Turns block_turns, warp_turns[kMostThreads / kWarp];
  Context scheduler;
  void (*call)(const void*) = nullptr;
  const void* closure = nullptr;
};
Fibers& fibers() {
  static Fibers instance;
  return instance;
}

void fiber_main() {
  Fibers& f = fibers();
  f.call(f.closure);
  self->done = true;
  self->context.switch_to(f.scheduler);
}

void wait_for_turn(Turns& turns, int threads) {
  if (++turns.arrived == threads) {
    turns.arrived = 0;
    ++turns.turn;
    return;
  }
  self->waits_at = &turns;
  self->waits_since = turns.turn;
  self->context.switch_to(fibers().scheduler);
}

void run_block(const Grid& grid, Block& block, bool reversed) {
  Fibers& f = fibers();
  f.block_turns = {};
  std::fill(std::begin(f.warp_turns), std::end(f.warp_turns), Turns{});
  for (int i = 0; i < grid.threads; ++i) {
    Thread& t = f.threads[i];
    t.block = &block;
    t.shared_used = 0;
    t.exchanges = 0;
    t.uses_fibers = true;
    t.done = false;
    t.waits_at = nullptr;
    t.context.start(f.stacks.data() + i * kStackBytes, kStackBytes, fiber_main);
  }
  for (int left = grid.threads; left > 0;) {
    bool moved = false;
    for (int k = 0; k < grid.threads; ++k) {
      const int i = reversed ? grid.threads - 1 - k : k;
      Thread& t = f.threads[i];
      if (t.done || (t.waits_at && t.waits_at->turn == t.waits_since)) continue;
      t.waits_at = nullptr;
      self = &t;
      place = {i, grid.threads, block.index};
      f.scheduler.switch_to(t.context);
      left -= t.done;
      moved = true;
    }
    expect(moved, "emulator", "{}:{}: threads of block {} wait at a barrier that others never reach",
           grid.where.file_name(), grid.where.line(), block.index);
  }
  self = nullptr;
}

void run_fibers(const Grid& grid, bool reversed) {
  Block block(grid.threads, 0);
  for (int64_t k = 0; k < grid.blocks; ++k) {
    block.index = reversed ? grid.blocks - 1 - k : k;
    std::memset(block.shared.data(), 0xff, block.shared.size());
    run_block(grid, block, reversed);
  }
}

// ---- threads
// -------------------------------------------------------------------------------------------------

struct ThreadStart {
  const Grid* grid;
  Block* block;
  int index;
  void (*call)(const void*);
  const void* closure;
};

void* run_thread(void* argument) {
  const ThreadStart& start = *static_cast<ThreadStart*>(argument);
  Thread t;
  t.block = start.block;
  self = &t;
  place = {start.index, start.grid->threads, start.block->index};
  start.call(start.closure);
  return nullptr;
}

void run_threads(const Grid& grid, void (*call)(const void*), const void* closure) {
  constexpr int kAtOnce = 512;  // threads, so that blocks run side by side, and their races show
  const int64_t blocks_at_once = std::max(1, kAtOnce / grid.threads);
  pthread_attr_t small_stack;  // ThreadSanitizer prepares all of a stack: most of the time goes there
  pthread_attr_init(&small_stack);
  pthread_attr_setstacksize(&small_stack, size_t{128} << 10);
  for (int64_t first = 0; first < grid.blocks; first += blocks_at_once) {
    std::vector<std::unique_ptr<Block>> blocks;
    std::vector<ThreadStart> starts;
    for (int64_t b = first; b < std::min(grid.blocks, first + blocks_at_once); ++b) {
      Block& block = *blocks.emplace_back(std::make_unique<Block>(grid.threads, b));
      block.barrier = std::make_unique<PthreadBarrier>(grid.threads);
      for (int w = 0; w < grid.threads / kWarp; ++w)
        block.warp_barriers.push_back(std::make_unique<PthreadBarrier>(kWarp));
    }
    for (const auto& block : blocks)
      for (int i = 0; i < grid.threads; ++i) starts.push_back({&grid, block.get(), i, call, closure});
    std::vector<pthread_t> threads(starts.size());
    for (size_t i = 0; i < starts.size(); ++i)
      expect(pthread_create(&threads[i], &small_stack, run_thread, &starts[i]) == 0, "emulator",
             "cannot start a thread");
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  pthread_attr_destroy(&small_stack);
}

void sync_warp() {
  const int w = place.thread / kWarp;
  if (self->uses_fibers)
    wait_for_turn(fibers().warp_turns[w], kWarp);
  else
    self->block->warp_barriers[w]->wait();
}

}  // namespace

Mode mode() {
  return current_mode;
}
void set_mode(Mode mode) {
  current_mode = mode;
}

void sync_block() {
  if (self->uses_fibers)
    wait_for_turn(fibers().block_turns, self->block->threads);
  else
    self->block->barrier->wait();
}

// Two buffers in turn: who writes the next value has passed a barrier behind which all have read this one.
void exchange(const void* value, void* taken, size_t bytes, int from) {
  expect(bytes <= kExchangeBytes, "emulator", "an exchange of {} bytes", bytes);
  std::byte* slots = self->block->exchanged[self->exchanges++ % 2].data();
  std::memcpy(slots + place.thread * kExchangeBytes, value, bytes);
  sync_warp();
  std::memcpy(taken, slots + (place.thread / kWarp * kWarp + from) * kExchangeBytes, bytes);
}

void* shared_bytes(size_t bytes) {
  void* out = self->block->shared.data() + self->shared_used;
  self->shared_used += (bytes + 15) / 16 * 16;
  expect(self->shared_used <= kSharedBytes, "emulator", "more than {} bytes of shared memory", kSharedBytes);
  return out;
}

void run(const Grid& grid, void (*call)(const void*), const void* closure) {
  expect(grid.threads > 0 && grid.threads % kWarp == 0 && grid.threads <= kMostThreads && grid.blocks > 0 &&
             grid.blocks < int64_t{1} << 31,
         "emulator", "{}:{}: a grid of {} blocks of {} threads", grid.where.file_name(), grid.where.line(),
         grid.blocks, grid.threads);
  const DeviceAccess access;
  if (current_mode == Mode::threads) return run_threads(grid, call, closure);
  fibers().call = call;
  fibers().closure = closure;
  run_fibers(grid, current_mode == Mode::fibers_reversed);
}

}  // namespace copylab::cuda::emulator
