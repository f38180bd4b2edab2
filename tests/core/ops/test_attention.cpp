// Attention against a plain double reference over its options, and its gradients by differences.
#include "core/ops/attention.h"

#include <cmath>
#include <vector>

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

struct Case {
  int64_t batch, length, heads, kv_heads, head_dim, window;
  bool bias, allowed, marked, segment;
};

// The masks of a case, the same numbers in every dtype.
struct Masks {
  std::vector<double> bias;
  std::vector<uint8_t> allowed, marked;
  std::vector<int32_t> segment;

  explicit Masks(const Case& c) {
    const int64_t rows = c.batch * c.length;
    if (c.bias) bias = random_input({c.length, c.length}, "bias").values;
    if (c.allowed)  // a quarter of the rows see nothing at all
      for (int64_t i = 0; i < rows; ++i)
        for (int32_t draw : random_ids(c.length, "allowed " + std::to_string(i), 0, 3))
          allowed.push_back(i % 4 != 3 && draw > 0);
    if (c.marked)
      for (int32_t draw : random_ids(rows, "marked", 0, 2)) marked.push_back(draw != 0);
    if (c.segment)
      for (int64_t i = 0; i < rows; ++i) segment.push_back(static_cast<int32_t>(i % c.length / 5));
  }

  ops::AttentionOptions options(Tape& tape, const Case& c, DType dtype) const;
};

ops::AttentionOptions Masks::options(Tape& tape, const Case& c, DType dtype) const {
  ops::AttentionOptions o;
  o.window = c.window;
  const Shape rows{c.batch, c.length};
  if (c.bias && dtype == DType::f32)
    o.bias = tape.constant(std::vector<float>(bias.begin(), bias.end()), {c.length, c.length});
  if (c.bias && dtype == DType::f64) o.bias = tape.constant(bias, {c.length, c.length});
  if (c.allowed) o.allowed = tape.constant(allowed, {c.batch, c.length, c.length});
  if (c.marked) o.marked = tape.constant(marked, rows);
  if (c.segment) o.segment = tape.constant(segment, rows);
  return o;
}

std::vector<Input> inputs_of(const Case& c) {
  return {random_input({c.batch, c.length, c.heads, c.head_dim}, "q"),
          random_input({c.batch, c.length, c.kv_heads, c.head_dim}, "k"),
          random_input({c.batch, c.length, c.kv_heads, c.head_dim}, "v")};
}

Op op_of(const Case& c) {
  return [c, masks = Masks(c)](Tape& tape, const std::vector<Tensor>& x) {
    return ops::attention(tape, x[0], x[1], x[2], masks.options(tape, c, x[0].dtype()));
  };
}

// Out and probabilities by the definition.
struct Reference {
  std::vector<double> out, probs;
};
Reference reference(const Case& c, const std::vector<Input>& x) {
  const Masks m(c);
  const int64_t B = c.batch, T = c.length, H = c.heads, G = c.kv_heads, d = c.head_dim;
  Reference r{std::vector<double>(B * T * H * d), std::vector<double>(B * H * T * T)};
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t t = 0; t < T; ++t) {
        const int64_t g = h / (H / G);
        std::vector<double> weight(T, 0.0);
        double sum = 0;
        for (int64_t j = 0; j <= t; ++j) {
          if (c.window > 0 && j <= t - c.window) continue;
          if (c.allowed && !m.allowed[(b * T + t) * T + j]) continue;
          if (c.marked && !(m.marked[b * T + t] && m.marked[b * T + j])) continue;
          if (c.segment && m.segment[b * T + t] != m.segment[b * T + j]) continue;
          double score = 0;
          for (int64_t i = 0; i < d; ++i)
            score += x[0].values[((b * T + t) * H + h) * d + i] * x[1].values[((b * T + j) * G + g) * d + i];
          weight[j] = std::exp(score / std::sqrt(double(d)) + (c.bias ? m.bias[t * T + j] : 0.0));
          sum += weight[j];
        }
        for (int64_t j = 0; j <= t && sum > 0; ++j) {
          r.probs[((b * H + h) * T + t) * T + j] = weight[j] / sum;
          for (int64_t i = 0; i < d; ++i)
            r.out[((b * T + t) * H + h) * d + i] +=
                weight[j] / sum * x[2].values[((b * T + j) * G + g) * d + i];
        }
      }
  return r;
}

class KeepProbe : public Probe {
 public:
  bool wants(const std::string& name) const override { return name == "probs"; }
  void take(const std::string&, const Tensor& value) override {
    probs.assign(value.data<double>(), value.data<double>() + value.size());
  }
  std::vector<double> probs;
};

}  // namespace

TEST_CASE("attention equals its definition under every option", "[attention]") {
  for (int64_t window : {0, 1, 5})
    for (int mask = 0; mask < 16; ++mask)
      for (const auto& [heads, kv_heads, head_dim] :
           std::vector<std::array<int64_t, 3>>{{4, 2, 5}, {1, 1, 17}}) {
        const Case c{2,
                     37,
                     heads,
                     kv_heads,
                     head_dim,
                     window,
                     bool(mask & 1),
                     bool(mask & 2),
                     bool(mask & 4),
                     bool(mask & 8)};
        const std::vector<Input> x = inputs_of(c);
        const Reference expected = reference(c, x);
        CAPTURE(window, mask, heads, kv_heads, head_dim);
        CHECK(difference(run_op<double>(op_of(c), x).outputs[0], expected.out) < 1e-12);
        CHECK(difference(run_op<float>(op_of(c), x).outputs[0], expected.out) < 1e-5);
      }
}

TEST_CASE("attention over several row tasks and column blocks equals its definition", "[attention]") {
  for (int64_t window : {0, 100}) {
    const Case c{1, 531, 2, 1, 8, window, false, false, false, false};
    const std::vector<Input> x = inputs_of(c);
    CHECK(difference(run_op<double>(op_of(c), x).outputs[0], reference(c, x).out) < 1e-12);
    CHECK(float32_error(op_of(c), x) == "");
    CHECK(thread_error(op_of(c), x) == "");
  }
}

TEST_CASE("attention hands its probabilities to a probe that wants them, and only then", "[attention]") {
  const Case c{2, 19, 4, 2, 6, 7, true, true, false, true};
  const std::vector<Input> x = inputs_of(c);
  KeepProbe probe;
  Tape tape(cpu_backend());
  Tape::Options options;
  options.probe = &probe;
  tape.begin(options);
  std::vector<Tensor> in;
  for (const Input& i : x) in.push_back(tape.constant(i.values, i.shape));
  ops::AttentionOptions attention_options = Masks(c).options(tape, c, DType::f64);
  attention_options.probe = "other";
  ops::attention(tape, in[0], in[1], in[2], attention_options);
  CHECK(probe.probs.empty());
  attention_options.probe = "probs";
  ops::attention(tape, in[0], in[1], in[2], attention_options);
  CHECK(difference(probe.probs, reference(c, x).probs) < 1e-12);
}

TEST_CASE("attention gradients", "[attention][gradient]") {
  const std::vector<Case> cases = {
      {2, 7, 2, 2, 3, 0, false, false, false, false}, {1, 19, 2, 1, 2, 4, true, false, false, true},
      {2, 9, 3, 1, 2, 0, false, true, false, false},  {2, 9, 2, 1, 3, 0, false, false, true, false},
      {1, 18, 1, 1, 9, 3, true, true, true, true},
  };
  for (const Case& c : cases) check_op(op_of(c), inputs_of(c));
}

TEST_CASE("attention ignores a common offset of a row's scores", "[attention]") {
  const Case c{1, 33, 1, 1, 4, 0, false, false, false, false};
  const std::vector<Input> x = inputs_of(c);
  for (double offset : {1e4, 1e6}) {
    const Op shifted = [&](Tape& tape, const std::vector<Tensor>& in) {
      ops::AttentionOptions o;
      o.bias = tape.constant(std::vector<double>(33 * 33, offset), {33, 33});
      return ops::attention(tape, in[0], in[1], in[2], o);
    };
    const OpResult a = run_op<double>(shifted, x), b = run_op<double>(op_of(c), x);
    CHECK(difference(a.outputs[0], b.outputs[0]) < 1e-9);
    CHECK(difference(a.gradients[0], b.gradients[0]) < 1e-8);
  }
}

TEST_CASE("attention refuses shapes that do not fit", "[attention]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const auto f = [&](Shape s) { return tape.scratch(DType::f32, s); };
  const Tensor q = f({2, 5, 4, 3});
  CHECK(error_of([&] {
          ops::attention(tape, q, f({2, 5, 3, 3}), f({2, 5, 3, 3}));
        }) == "[attention] key/value heads must divide query heads: got 4 heads, 3 key/value heads");
  CHECK(error_of([&] {
          ops::attention(tape, q, f({2, 6, 2, 3}), f({2, 6, 2, 3}));
        }) == "[attention] q and k must agree on B, T and d: got (2, 5, 4, 3), (2, 6, 2, 3)");
  ops::AttentionOptions o;
  o.marked = tape.scratch(DType::i32, {2, 5});
  CHECK(error_of([&] { ops::attention(tape, q, q, q, o); }) ==
        "[attention] marked uint8 (2, 5) expected: got int32 (2, 5)");
}
