// The emulator itself: barriers, exchanges, shared memory, and what it finds out.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "core/cuda/device.h"
#include "core/cuda/kernels/map.h"
#include "core/cuda/kernels/product.h"
#include "core/cuda/mma.h"
#include "core/error.h"
#include "tests/catch.h"
#include "tests/emulator/emulator.h"

using namespace copylab;
using namespace copylab::cuda;
using emulator::Mode;

namespace {

struct alignas(16) FourWords {
  Bf16 x[8];
};

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

// c (16, 8) += a (16, 16) · b (16, 8): fragments as PTX places them, b's loaded as it lies and transposed.
CL_KERNEL multiply_fragments(const float* a, const float* b, float* c) {
  CL_SHARED(FourWords, tiles, 3 * 32);  // a, b, b transposed: 16 rows of 16 numbers each
  Bf16 *const tile_a = &tiles[0].x[0], *const tile_b = &tiles[32].x[0], *const tile_bt = &tiles[64].x[0];
  for (int i = thread(); i < 256; i += threads()) {
    const float right = i % 16 < 8 ? b[i / 16 * 8 + i % 16] : 77.0f;  // beyond b's 8 columns: must not matter
    tile_a[i] = to_bf16(a[i]);
    tile_b[i] = to_bf16(right);
    tile_bt[i % 16 * 16 + i / 16] = to_bf16(right);
  }
  sync_block();
  const auto block_row = [](const Bf16* tile) { return tile + lane() % 16 * 16 + lane() / 16 * 8; };
  uint32_t left[4], right[4], right_t[4];
  load_blocks<false>(block_row(tile_a), left);
  load_blocks<true>(block_row(tile_b), right);
  load_blocks<false>(block_row(tile_bt), right_t);
  const int g = lane() / 4, t = lane() % 4;
  float sum[4], sum_t[4];
  for (int i = 0; i < 4; ++i) sum[i] = sum_t[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  multiply_add(sum, left, right[0], right[1]);
  multiply_add(sum_t, left, right_t[0], right_t[2]);
  for (int i = 0; i < 4; ++i)
    c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i] == sum_t[i] ? sum[i] : kInf<float>;
}

// Fragment words hand-made from the formulas of the PTX ISA, element by element, without load_blocks.
CL_KERNEL multiply_elements(const float* a, const float* b, float* c) {
  const int g = lane() / 4, t = lane() % 4;
  uint32_t left[4] = {}, right[2] = {};
  for (int i = 0; i < 8; ++i) {  // a_i, in the order in which words hold them, low half first
    const int row = i < 2 || (4 <= i && i < 6) ? g : g + 8, column = 2 * t + (i & 1) + (i < 4 ? 0 : 8);
    left[i / 2] |= uint32_t{to_bf16(a[row * 16 + column]).bits} << 16 * (i % 2);
  }
  for (int i = 0; i < 4; ++i) {  // b_i
    const int row = 2 * t + (i & 1) + (i < 2 ? 0 : 8);
    right[i / 2] |= uint32_t{to_bf16(b[row * 8 + g]).bits} << 16 * (i % 2);
  }
  float sum[4];
  for (int i = 0; i < 4; ++i) sum[i] = c[(i < 2 ? g : g + 8) * 8 + 2 * t + (i & 1)];
  multiply_add(sum, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i) c[(i < 2 ? g : g + 8) * 8 + 2 * t + (i & 1)] = sum[i];
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
  const auto rounded = [](float x) { return from_bf16(to_bf16(x)); };
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
  const auto rounded = [](float x) { return double(from_bf16(to_bf16(x))); };
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

TEST_CASE("tensor cores multiply fragments that lie as the PTX ISA says", "[emulator]") {
  std::vector<float> a(256), b(128), c(128), exact;
  for (int i = 0; i < 256; ++i) a[i] = static_cast<float>(i * 37 % 101 - 50);
  for (int i = 0; i < 128; ++i) b[i] = static_cast<float>(i * 53 % 97 - 48);
  for (int i = 0; i < 128; ++i) c[i] = static_cast<float>(i);
  exact = c;
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < 16; ++k) exact[i * 8 + j] += a[i * 16 + k] * b[k * 8 + j];
  Workspace workspace;
  float *da = workspace.take<float>(256), *db = workspace.take<float>(128), *dc = workspace.take<float>(128);
  copy_to_device(da, a.data(), sizeof(float) * a.size());
  copy_to_device(db, b.data(), sizeof(float) * b.size());
  for (const auto kernel : {multiply_fragments, multiply_elements})
    for (const Mode mode : {Mode::forward, Mode::reversed}) {
      emulator::set_mode(mode);
      copy_to_device(dc, c.data(), sizeof(float) * c.size());
      launch({1, kWarp}, kernel, da, db, dc);
      std::vector<float> got(128);
      copy_to_host(got.data(), dc, sizeof(float) * got.size());
      CHECK(got == exact);
    }
  emulator::set_mode(Mode::forward);
}
