// Whole models on the emulated backend: every head and its options, with gradients, against float64 on the
// CPU. Since the host cannot touch the emulated device's memory, this also finds code that forgets to copy.
#include <fmt/format.h>

#include "experiments/check/check_backends.h"
#include "experiments/check/check_gradients.h"
#include "experiments/check/check_settings.h"
#include "tests/catch.h"
#include "tests/emulator/emulator.h"

using namespace copylab;

TEST_CASE("models of every head give the same numbers on the emulated backend", "[emulator]") {
  for (const std::vector<std::string>& variant : head_variants()) {
    const BackendCheck check = check_backend(cuda::emulator::backend(), check_settings(variant));
    INFO(fmt::format("{}: {}", fmt::join(variant, " "), check.parameter));
    CHECK(check.loss_error <= 2e-5);
    CHECK(check.gradient_error <= 2e-5);
  }
}

TEST_CASE("check backends: training gives the same bits again and by recorded steps", "[emulator]") {
  const cuda::emulator::DeviceAccess open;
  const TrainingCheck check = check_training(cuda::emulator::backend(), check_settings());
  CHECK(check.is_right());
  CHECK(check.counts.recorded == 1);
  // A kernel that depends on more than its arguments.
  static const KernelTable<float>& right = cuda::emulator::backend().f32;
  static float factor = 1;
  Backend wrong = cuda::emulator::backend();
  wrong.f32.swiglu = [](const float* gate, const float* up, float* y, int64_t n) {
    right.swiglu(gate, up, y, n);
    right.affine(y, factor *= 1.001f, 0, y, n, false);
  };
  CHECK_FALSE(check_training(wrong, check_settings()).again);
}

TEST_CASE("check backends: a kernel that is wrong by a thousandth is a bug", "[emulator]") {
  static const KernelTable<float>& right = cuda::emulator::backend().f32;
  Backend wrong = cuda::emulator::backend();
  wrong.f32.swiglu = [](const float* gate, const float* up, float* y, int64_t n) {
    right.swiglu(gate, up, y, n);
    right.affine(y, 1.001f, 0, y, n, false);
  };
  CHECK_FALSE(check_kernels(wrong, "swiglu").at("swiglu").is_rounding());
  CHECK(check_kernels(wrong, "affine").at("affine").is_rounding());

  // At bf16, inputs are rounded already: linear is as near as in float32, attention as near as its weights.
  cuda::set_precision(cuda::Precision::bf16);
  CHECK(check_kernels(wrong, "linear", true).at("linear").error < 2e-5);
  wrong.f32.attention = [](const AttentionArgs<float>& a) {
    right.attention(a);
    right.affine(a.out, 1.01f, 0, a.out, a.batch * a.length * a.heads * a.head_dim, false);
  };
  const KernelCheck attention = check_kernels(wrong, "attention", true).at("attention");
  cuda::set_precision(cuda::Precision::f32);
  CHECK_FALSE(attention.is_rounding());
}
