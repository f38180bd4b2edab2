// The step graph of the CUDA backend: what it repeats, what it updates, and what it must not trust.
#include <numeric>

#include "core/cuda/kernels/map.h"
#include "core/cuda/recorder.h"
#include "core/error.h"
#include "tests/catch.h"
#include "tests/emulator/emulator.h"
#include "tests/messages.h"

using namespace copylab;
using namespace copylab::cuda;
using testing::contains;
using testing::message_of;

namespace {

// A step on n numbers: uploads `input`, and adds factor·input to `sum`, by way of a workspace and a product.
struct Step {
  static constexpr int64_t kMost = 2048;
  Workspace memory;
  float* input = memory.take<float>(kMost);
  float* sum = memory.take<float>(kMost);
  std::vector<double> expected = std::vector<double>(kMost, 0.0);

  Step() { fill_zero(sum, sizeof(float) * kMost); }

  void work(const std::vector<float>& numbers, float factor) {
    const int64_t n = static_cast<int64_t>(numbers.size());
    copy_to_device(input, numbers.data(), sizeof(float) * n);
    Workspace workspace;
    float* scaled = workspace.take<float>(n);
    float* one = workspace.take<float>(1);
    const float *from = input, *scaled_from = scaled;
    float* to = sum;
    map(
        n, CL_LAMBDA(int64_t i) {
          scaled[i] = factor * from[i];
          if (i == 0) *one = 1;
        });
    blas(Product<float>{.m = 1, .n = 1, .k = 1, .a = {one, 1}, .b = {one, 1}, .c = one, .c_row = 1});
    map(
        n, CL_LAMBDA(int64_t i) { to[i] += *one * scaled_from[i]; });
  }
  void run(StepGraph& graph, int64_t n, float factor) {
    std::vector<float> numbers(n);
    std::iota(numbers.begin(), numbers.end(), static_cast<float>(graph.counts().direct + 1));
    graph.run([&] { work(numbers, factor); });
    for (int64_t i = 0; i < n; ++i) expected[i] += factor * numbers[i];
    std::vector<float> got(kMost);
    copy_to_host(got.data(), sum, sizeof(float) * kMost);
    for (int64_t i = 0; i < kMost; ++i) REQUIRE(got[i] == Approx(expected[i]));
  }
};

}  // namespace

TEST_CASE("a step graph repeats what is alike, with new uploads", "[emulator]") {
  Step step;
  const auto graph = step_graph(false);
  for (int i = 0; i < 5; ++i) step.run(*graph, 200, 2.0f);
  CHECK(graph->counts().direct == 1);
  CHECK(graph->counts().recorded == 1);
  CHECK(graph->counts().repeated == 3);
  CHECK(graph->counts().updated == 0);
}

TEST_CASE("a step graph updates launches whose arguments or grid changed", "[emulator]") {
  Step step;
  const auto graph = step_graph(false);
  for (int i = 0; i < 5; ++i) step.run(*graph, 2048, 1.0f + static_cast<float>(i));
  CHECK(graph->counts().repeated == 3);
  CHECK(graph->counts().updated == 3);
  step.run(*graph, 1800, 5.0f);  // fewer blocks, and another size in both launches
  CHECK(graph->counts().repeated == 4);
  CHECK(graph->counts().updated == 5);
}

TEST_CASE("a step graph does not repeat a step that asks for something else", "[emulator]") {
  Step step;
  std::vector<float> zeros(8);
  const auto other = [&](StepGraph& graph, bool early, bool late) {
    graph.run([&] {
      if (early) fill_zero(step.input, sizeof(float));
      step.work(zeros, 1.0f);
      if (late) fill_zero(step.input, sizeof(float));
    });
  };
  for (const bool always : {false, true}) {
    CAPTURE(always);
    const auto graph = step_graph(always);
    step.run(*graph, 50, 1.0f);
    step.run(*graph, 50, 1.0f);
    CHECK(graph->counts().recorded == 1);
    other(*graph, true, false);   // one command more at the start
    other(*graph, false, true);   // at the end
    other(*graph, false, false);  // one less
    step.run(*graph, 50, 1.0f);
    CHECK(graph->counts().repeated == (always ? 1 : 0));
  }
}

TEST_CASE("a step graph gives up on steps that keep differing, unless it is told not to", "[emulator]") {
  for (const bool always : {false, true}) {
    CAPTURE(always);
    Step step;
    const auto graph = step_graph(always);
    for (int i = 0; i < 20; ++i) {
      std::vector<float> numbers(10 + i);
      graph->run([&] {
        step.work(numbers, 1.0f);
        for (int k = 0; k < i; ++k) fill_zero(step.input, sizeof(float));
      });
    }
    CHECK(graph->counts().recorded == (always ? 19 : 3));
    CHECK(graph->counts().direct == (always ? 1 : 17));
    CHECK(graph->counts().repeated == 0);
  }
}

TEST_CASE("a recorded step that fails leaves nothing behind, and one that reads is an error", "[emulator]") {
  Step step;
  const auto graph = step_graph(true);
  step.run(*graph, 20, 1.0f);
  for (int when = 0; when < 2; ++when) {  // while it is recorded, and while it is compared
    if (when == 1) step.run(*graph, 20, 1.0f);
    const auto reads = [&] {
      float number;
      step.work({1.0f}, 1.0f);
      copy_to_host(&number, step.sum, sizeof(number));
    };
    CHECK(contains(message_of([&] { graph->run(reads); }), "reads what it computes"));
    step.run(*graph, 20, 3.0f);
  }
  CHECK(contains(message_of([&] { graph->run([&] { graph->run([] {}); }); }), "inside another"));
  step.run(*graph, 20, 1.0f);
}
