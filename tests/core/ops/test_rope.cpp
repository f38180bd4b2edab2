// rope: rotation by position, relative phase, YaRN's reference values, and gradients.
#include "core/ops/rope.h"

#include <complex>

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::ops;
using namespace copylab::test;

namespace {

// rope with a table of the input's type.
auto rope_of(int64_t head_dim, const std::vector<int32_t>& positions, std::optional<Yarn> yarn = {}) {
  const auto make = [=](DType dtype) {
    return std::make_shared<RopeTable>(cpu_backend(), dtype, head_dim, 10000.0, 64, yarn);
  };
  return [positions, narrow = make(DType::f32), wide = make(DType::f64)](Tape& tape,
                                                                         const std::vector<Tensor>& in) {
    return ops::rope(tape, in[0], in[0].dtype() == DType::f32 ? *narrow : *wide,
                     tape.constant(positions, {static_cast<int64_t>(positions.size())}));
  };
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

TEST_CASE("rope turns the pairs (i, i + d/2) as complex numbers", "[rope]") {
  const std::vector<int32_t> positions = {0, 3, 17, 63, 1, 2};
  const int64_t heads = 3, d = 10;
  const Input x = random_input({2, 3, heads, d}, "x");
  std::vector<double> expected(x.values.size());
  for (size_t row = 0; row < positions.size(); ++row)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < d / 2; ++i) {
        const size_t a = (row * heads + h) * d + i, b = a + d / 2;
        const auto turned = std::complex<double>(x.values[a], x.values[b]) *
                            std::polar(1.0, positions[row] * std::pow(10000.0, -2.0 * i / d));
        expected[a] = turned.real();
        expected[b] = turned.imag();
      }
  CHECK(difference(run_op<double>(rope_of(d, positions), {x}).outputs[0], expected) < 1e-13);
}

TEST_CASE("rope passes the gradient check, with YaRN as without", "[rope]") {
  const std::vector<int32_t> positions = {0, 3, 17, 63, 1, 2};
  const Input x = random_input({2, 3, 2, 6}, "x");
  check_op(rope_of(6, positions), {x});
  check_op(rope_of(6, positions, Yarn{.scale = 4, .original_length = 16}), {x});
}

TEST_CASE("scores after rope depend on the distance alone", "[rope]") {
  const Input q = random_input({1, 1, 8}, "q"), k = random_input({1, 1, 8}, "k");
  const auto score = [&](int m, int n) {
    return dot(run_op<double>(rope_of(8, {m}), {q}).outputs[0],
               run_op<double>(rope_of(8, {n}), {k}).outputs[0]);
  };
  CHECK(score(9, 4) == Approx(score(45, 40)).epsilon(1e-12));
  CHECK(score(9, 4) != Approx(score(9, 5)).epsilon(1e-3));
}

TEST_CASE("rope has the same bits for any number of threads", "[rope][threads]") {
  const auto positions = random_ids(600, "positions", 0, 64);
  const Input x = random_input({600, 4, 16}, "x");
  CHECK(thread_error(rope_of(16, positions), {x}) == "");
  CHECK(float32_error(rope_of(16, positions), {x}) == "");
}

TEST_CASE("YaRN has the ramp and the factors of its reference code", "[rope][yarn]") {
  const Yarn yarn{.scale = 4, .original_length = 1024};
  const auto [low, high] = yarn_range(64, 10000.0, yarn);
  CHECK(low == 5);
  CHECK(high == 18);
  CHECK(yarn_mscale(4) == Approx(1.1386).margin(5e-5));
  CHECK(yarn_mscale(8) == Approx(1.2079).margin(5e-5));
  CHECK(yarn_mscale(1) == 1);
  CHECK(yarn_mscale(0.5) == 1);

  const auto plain = rope_frequencies(64, 10000.0), scaled = rope_frequencies(64, 10000.0, yarn);
  for (int i = 0; i <= 5; ++i) CHECK(scaled[i] == plain[i]);               // fast ones stay
  for (int i = 18; i < 32; ++i) CHECK(scaled[i] == Approx(plain[i] / 4));  // slow ones interpolate
  const double keep = 1 - (10 - 5) / 13.0;                                 // on the ramp, a mix
  CHECK(scaled[10] == Approx(plain[10] / 4 * (1 - keep) + plain[10] * keep).epsilon(1e-14));

  Yarn none = yarn;
  none.extrapolation_factor = 0;  // position interpolation
  CHECK(rope_frequencies(64, 10000.0, none)[0] == Approx(0.25));
}

TEST_CASE("YaRN's mscale and attn_factor multiply cos and sin", "[rope][yarn]") {
  const RopeTable table(cpu_backend(), DType::f64, 8, 10000.0, 16,
                        Yarn{.scale = 4, .original_length = 16, .attn_factor = 0.5});
  const auto cos = to_host<double>(cpu_backend(), table.cos()),
             sin = to_host<double>(cpu_backend(), table.sin());
  for (size_t i = 0; i < cos.size(); ++i)
    CHECK(std::hypot(cos[i], sin[i]) == Approx(0.5 * yarn_mscale(4)).epsilon(1e-12));
}

TEST_CASE("a YaRN range of no width, from a short original length, still gives frequencies", "[rope][yarn]") {
  const Yarn yarn{.scale = 2, .original_length = 4};
  const auto [low, high] = yarn_range(8, 10000.0, yarn);
  CHECK(low == 0);
  CHECK(high == 0);
  const auto plain = rope_frequencies(8, 10000.0), scaled = rope_frequencies(8, 10000.0, yarn);
  CHECK(scaled[0] == plain[0]);
  CHECK(scaled[1] == Approx(plain[1] / 2));
}

TEST_CASE("rope names what is wrong", "[rope][errors]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const RopeTable table(cpu_backend(), DType::f32, 4, 10000.0, 8);
  const auto call = [&](Shape shape, std::vector<int32_t> positions) {
    return error_of([&] {
      Tensor x = tape.scratch(DType::f32, shape);
      std::fill_n(x.data<float>(), x.size(), 1.0f);
      ops::rope(tape, x, table, tape.constant(positions, {static_cast<int64_t>(positions.size())}));
    });
  };
  CHECK(call({2, 3, 6}, {0, 1}) == "[rope] x (…, H, 4) expected: got (2, 3, 6)");
  CHECK(call({2, 3, 4}, {0, 1, 2}) == "[rope] one position for each row of (2, 3, 4) expected: got (3,)");
  CHECK(call({2, 3, 4}, {0, 8}) == "[rope] positions 0..7 expected: got 8 at 1");
  CHECK(call({2, 3, 4}, {0, 7}) == "");
  CHECK(error_of([] { rope_frequencies(5, 10000.0); }) == "[rope] an even head dimension expected: got 5");
  CHECK(error_of([] { rope_frequencies(4, 1.0); }) == "[rope] a base above 1 expected: got 1");
  CHECK(error_of([] { rope_frequencies(4, 10000.0, Yarn{}); }) ==
        "[rope] a YaRN scale and original length above 0 expected: got 1, 0");
}
