// The emulator itself: barriers, exchanges, shared memory, and what it finds out.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "core/cuda/device.h"
#include "core/cuda/kernels/map.h"
#include "core/cuda/kernels/product.h"
#include "core/error.h"
#include "tests/catch.h"
#include "tests/emulator/emulator.h"

using namespace copylab;
using namespace copylab::cuda;
using emulator::Mode;

namespace {

std::vector<int> host_copy(const int* device, int n) {
  std::vector<int> host(n);
  copy_to_host(host.data(), device, sizeof(int) * n);
  return host;
}

// Every thread adds up what all threads of its block put into shared memory; without the barrier it finds
// less.
template <bool kBarrier>
CL_KERNEL sum_shared(int* out) {
  CL_SHARED(int, values, kThreads);
  values[thread()] = thread();
  if (kBarrier) sync_block();
  int sum = 0;
  for (int i = 0; i < threads(); ++i) sum += values[i];
  out[block() * threads() + thread()] = sum;
}

CL_KERNEL divergent() {
  if (thread() < 40) sync_block();
}

CL_KERNEL rotate_lanes(int* out) {
  int x = thread();
  for (int i = 0; i < 5; ++i) x = shuffle_xor(x, 1 << i);  // in all: lane ^ 31
  out[thread()] = x;
}

}  // namespace

TEST_CASE("a barrier makes shared memory visible in either order; without it, order shows", "[emulator]") {
  constexpr int kBlocks = 3, kAll = kBlocks * kThreads;
  Workspace workspace;
  int* out = workspace.take<int>(kAll);
  for (const Mode mode : {Mode::forward, Mode::reversed}) {
    emulator::set_mode(mode);
    launch({kBlocks, kThreads}, sum_shared<true>, out);
    CHECK(host_copy(out, kAll) == std::vector<int>(kAll, kThreads * (kThreads - 1) / 2));
  }
  emulator::set_mode(Mode::forward);
  launch({kBlocks, kThreads}, sum_shared<false>, out);
  const std::vector<int> forward = host_copy(out, kAll);
  emulator::set_mode(Mode::reversed);
  launch({kBlocks, kThreads}, sum_shared<false>, out);
  CHECK(forward != host_copy(out, kAll));
  emulator::set_mode(Mode::forward);
}

TEST_CASE("lanes exchange values in either order", "[emulator]") {
  Workspace workspace;
  int* out = workspace.take<int>(kThreads);
  for (const Mode mode : {Mode::forward, Mode::reversed}) {
    emulator::set_mode(mode);
    launch({1, kThreads}, rotate_lanes, out);
    const std::vector<int> got = host_copy(out, kThreads);
    for (int i = 0; i < kThreads; ++i) CHECK(got[i] == (i ^ 31));
  }
  emulator::set_mode(Mode::forward);
}

TEST_CASE("a barrier that not all threads reach is an error, and so is half a warp", "[emulator]") {
  CHECK_THROWS_AS(launch({1, kThreads}, divergent), Error);
  CHECK_THROWS_AS(launch({1, 33}, divergent), Error);
}

TEST_CASE("the host cannot touch the memory of the emulated device", "[emulator]") {
  const Backend& backend = emulator::backend();
  int* data = static_cast<int*>(backend.allocate(sizeof(int)));
  const int seven = 7;
  backend.copy_in(data, &seven, sizeof(int));
  int back = 0;
  backend.copy_out(&back, data, sizeof(int));
  CHECK(back == 7);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    _exit(*static_cast<volatile int*>(data));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
  backend.release(data);
}

TEST_CASE("bfloat16 rounds to nearest, ties to even, and keeps what is not finite", "[emulator]") {
  const auto rounded = [](float x) {
    const uint32_t bits = uint32_t{to_bf16(x).bits} << 16;
    float out;
    std::memcpy(&out, &bits, sizeof(out));
    return out;
  };
  CHECK(rounded(1.0f) == 1.0f);
  CHECK(rounded(1.0f + 0x1p-8f) == 1.0f);  // tie, to even
  CHECK(rounded(1.0f + 0x1p-8f + 0x1p-20f) == 1.0f + 0x1p-7f);
  CHECK(rounded(1.0f + 3 * 0x1p-8f) == 1.0f + 0x1p-6f);  // tie, to even
  CHECK(rounded(-3.4e38f) == -kInf<float>);  // above the largest bfloat16 by more than half a step
  CHECK(rounded(kInf<float>) == kInf<float>);
  CHECK(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("products at bf16 round their operands, not their sums", "[emulator]") {
  const int64_t m = 3, n = 5, k = 40;
  Workspace workspace;
  std::vector<float> a(m * k), b(n * k), c(m * n);
  std::vector<double> exact(m * n, 0.0);
  const auto rounded = [](float x) {
    const uint32_t bits = uint32_t{to_bf16(x).bits} << 16;
    float out;
    std::memcpy(&out, &bits, sizeof(out));
    return double(out);
  };
  for (int64_t i = 0; i < m * k; ++i) a[i] = std::sin(1.0f + i);
  for (int64_t i = 0; i < n * k; ++i) b[i] = std::cos(3.0f + i);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) exact[i * n + j] += rounded(a[i * k + p]) * rounded(b[j * k + p]);
  float *da = workspace.take<float>(m * k), *db = workspace.take<float>(n * k),
        *dc = workspace.take<float>(m * n);
  copy_to_device(da, a.data(), sizeof(float) * a.size());
  copy_to_device(db, b.data(), sizeof(float) * b.size());
  set_precision(Precision::bf16);
  multiply<float>({.m = m, .n = n, .k = k, .a = {da, k}, .b = {db, k, true}, .c = dc, .c_row = n});
  set_precision(Precision::f32);
  copy_to_host(c.data(), dc, sizeof(float) * c.size());
  for (int64_t i = 0; i < m * n; ++i) CHECK(c[i] == Approx(exact[i]).margin(1e-5));
}
