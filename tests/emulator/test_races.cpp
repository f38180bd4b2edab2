// Every kernel under ThreadSanitizer, where each CUDA thread counts as a thread: no two threads of a kernel
// touch the same memory without a barrier between them, if one of them writes. A planted race must be found.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>

#include "core/cuda/kernels/map.h"
#include "experiments/check/op_cases.h"
#include "tests/catch.h"
#include "tests/emulator/emulator.h"

using namespace copylab;

namespace {
std::atomic<int> reports = 0;
}

// ThreadSanitizer calls these by name.
extern "C" void __tsan_on_report(const void*) {
  ++reports;
}
extern "C" const char* __tsan_default_options() {
  return "exitcode=0";  // reports are counted here
}

namespace {

// Hides what is printed to stderr while it lives.
class Silence {
 public:
  Silence() : before_(dup(2)) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 2);
    close(nowhere);
  }
  ~Silence() {
    dup2(before_, 2);
    close(before_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int before_;
};

// Sums over a block through shared memory; without the barrier that is a race.
template <bool kBarrier>
CL_KERNEL sum_block(int* out) {
  CL_SHARED(int, values, cuda::kThreads);
  values[cuda::thread()] = cuda::thread();
  if (kBarrier) cuda::sync_block();
  if (cuda::thread() > 0) return;
  for (int i = 0; i < cuda::threads(); ++i) *out += values[i];
}

// All blocks write to one place.
CL_KERNEL write_same(int* out) {
  if (cuda::thread() == 0) *out = static_cast<int>(cuda::block());
}

}  // namespace

TEST_CASE("planted races are found, within a block and between blocks", "[races]") {
  cuda::Workspace workspace;
  int* out = workspace.take<int>(1);
  reports = 0;
  cuda::launch({1, cuda::kThreads}, sum_block<true>, out);
  CHECK(reports == 0);
  {
    const Silence silence;
    cuda::launch({1, cuda::kThreads}, sum_block<false>, out);
  }
  CHECK(reports > 0);
  reports = 0;
  {
    const Silence silence;
    cuda::launch({2, cuda::kThreads}, write_same, out);
  }
  CHECK(reports > 0);
}

TEST_CASE("no kernel has a race", "[races]") {
  const cuda::emulator::DeviceAccess open;
  for (const cuda::Precision precision : {cuda::Precision::f32, cuda::Precision::bf16})
    for (const OpCase& c : op_cases()) {
      // Other kernels than those of attention differ in matrix products alone.
      if (!c.tiny || (precision == cuda::Precision::bf16 && !c.entry.starts_with("attention"))) continue;
      reports = 0;
      cuda::set_precision(precision);
      c.run<float>(cuda::emulator::backend());
      cuda::set_precision(cuda::Precision::f32);
      INFO(c.entry << " " << c.variant);
      CHECK(reports == 0);
    }
}
