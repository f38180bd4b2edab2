// Pointer against a plain double reference over its options, its gradients by differences, and its limits.
#include "core/ops/pointer.h"

#include <cmath>
#include <vector>

#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

struct Case {
  int64_t batch, length, dim, window;
  bool next_token, copy_self, sink, segment;
  int32_t vocab = 4;   // few token types: several matches a row; many: one or none
  int64_t memory = 0;  // M; of sequence b the first b + 1 of these keys are empty
  int64_t keys() const { return memory + length; }
};

struct Tokens {
  std::vector<int32_t> tokens, targets, segment;
  explicit Tokens(const Case& c)
      : tokens(random_ids(c.batch * c.keys(), "tokens", 0, c.vocab)),
        targets(random_ids(c.batch * c.length, "targets", -1, c.vocab)) {
    for (int64_t i = 0; i < c.batch * c.keys(); ++i)
      segment.push_back(static_cast<int32_t>(i % c.keys() / 6));
    for (int64_t b = 0; b < c.batch && c.memory > 0; ++b)
      for (int64_t j = 0; j <= std::min(b, c.memory - 1); ++j) tokens[b * c.keys() + j] = -1;
  }
};

std::vector<Input> inputs_of(const Case& c, double scale = 1) {
  std::vector<Input> x = {random_input({c.batch, c.length, c.dim}, "q", scale),
                          random_input({c.batch, c.keys(), c.dim}, "k")};
  if (c.sink) x.push_back(random_input({c.batch, c.length}, "sink", scale));
  return x;
}

ops::PointerResult call(Tape& tape, const std::vector<Tensor>& x, const Case& c, bool want_weights) {
  const Tokens ids(c);
  const Shape rows{c.batch, c.length}, keys{c.batch, c.keys()};
  ops::PointerOptions o;
  o.window = c.window;
  o.next_token = c.next_token;
  o.copy_self = c.copy_self;
  o.want_weights = want_weights;
  if (c.segment) o.segment = tape.constant(ids.segment, keys);
  return ops::pointer(tape, x[0], x[1], c.sink ? x[2] : Tensor(), tape.constant(ids.tokens, keys),
                      tape.constant(ids.targets, rows), o);
}

Op op_of(const Case& c) {
  return [c](Tape& tape, const std::vector<Tensor>& x) {
    const ops::PointerResult r = call(tape, x, c, false);
    return std::vector<Tensor>{r.log_copy, r.log_sink};
  };
}
Op with_weights(const Case& c) {
  return [c](Tape& tape, const std::vector<Tensor>& x) {
    const ops::PointerResult r = call(tape, x, c, true);
    return std::vector<Tensor>{r.log_copy, r.log_sink, r.weights};
  };
}

// log_copy, log_sink, weights by the definition, in logs throughout.
std::vector<std::vector<double>> reference(const Case& c, const std::vector<Input>& x) {
  const Tokens ids(c);
  const int64_t B = c.batch, T = c.length, K = c.keys(), M = c.memory, d = c.dim;
  const auto log_add = [](double a, double b) {
    const double high = std::max(a, b);
    return high == -INFINITY ? high : high + std::log1p(std::exp(std::min(a, b) - high));
  };
  std::vector<double> log_copy(B * T), log_sink(B * T), weights(B * T * K);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < T; ++t) {
      const int64_t row = b * T + t;
      const double sink = c.sink ? x[2].values[row] : -INFINITY;
      double total = sink, matching = -INFINITY;
      bool any = false;
      std::vector<double> score(K, -INFINITY);
      for (int64_t p = 0; p < K; ++p) {
        const int64_t j = p - (c.next_token ? 1 : 0), now = M + t;
        if (j < 0 || p > now || (p == now && !c.copy_self)) continue;
        if (c.window > 0 && j <= now - c.window) continue;
        if (c.segment && ids.segment[b * K + now] != ids.segment[b * K + j]) continue;
        if (ids.tokens[b * K + j] < 0) continue;
        double dot = 0;
        for (int64_t i = 0; i < d; ++i) dot += x[0].values[row * d + i] * x[1].values[(b * K + j) * d + i];
        score[p] = dot / std::sqrt(double(d));
        any = true;
        total = log_add(total, score[p]);
        if (ids.targets[row] >= 0 && ids.tokens[b * K + p] == ids.targets[row])
          matching = log_add(matching, score[p]);
      }
      log_copy[row] = any ? matching - total : -INFINITY;
      log_sink[row] = any ? sink - total : 0.0;
      for (int64_t p = 0; p < K && any; ++p) weights[row * K + p] = std::exp(score[p] - total);
    }
  return {log_copy, log_sink, weights};
}

}  // namespace

TEST_CASE("pointer equals its definition under every option", "[pointer]") {
  for (int64_t window : {0, 1, 5})
    for (int flags = 0; flags < 16; ++flags)
      for (const auto& [dim, vocab] : std::vector<std::pair<int64_t, int32_t>>{{3, 2}, {17, 30}}) {
        const Case c{
            2, 37, dim, window, bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8), vocab};
        const std::vector<Input> x = inputs_of(c);
        const auto expected = reference(c, x);
        CAPTURE(window, flags, dim, vocab);
        const OpResult wide = run_op<double>(with_weights(c), x), narrow = run_op<float>(with_weights(c), x);
        CHECK(wide.overruns.empty());
        for (size_t i = 0; i < 3; ++i) {
          CHECK(difference(wide.outputs[i], expected[i]) < 1e-12);
          CHECK(difference(narrow.outputs[i], expected[i]) < 1e-5);
        }
      }
}

TEST_CASE("pointer with keys from before its rows equals its definition, and its gradients", "[pointer]") {
  for (int64_t memory : {1, 4, 40})
    for (int64_t window : {0, 3, 30})
      for (int flags = 0; flags < 16; ++flags) {
        const Case c{3, 21,    5, window, bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8),
                     4, memory};
        const std::vector<Input> x = inputs_of(c);
        const auto expected = reference(c, x);
        CAPTURE(memory, window, flags);
        const OpResult wide = run_op<double>(with_weights(c), x), narrow = run_op<float>(with_weights(c), x);
        CHECK(wide.overruns.empty());
        for (size_t i = 0; i < 3; ++i) {
          CHECK(difference(wide.outputs[i], expected[i]) < 1e-12);
          CHECK(difference(narrow.outputs[i], expected[i]) < 1e-5);
        }
      }
  for (int flags = 0; flags < 16; ++flags) {
    const Case c{
        2, 4, 3, flags % 3 == 0 ? 5 : 0, bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8),
        3, 6};
    CAPTURE(flags);
    check_op(op_of(c), inputs_of(c));
  }
  const Case wide{1, 600, 5, 300, false, true, true, false, 20, 299};  // several chunks of rows
  CHECK(difference(run_op<double>(op_of(wide), inputs_of(wide)).outputs[0],
                   reference(wide, inputs_of(wide))[0]) < 1e-12);
  CHECK(thread_error(op_of(wide), inputs_of(wide)) == "");
}

TEST_CASE("pointer over several chunks of rows equals its definition", "[pointer]") {
  for (int64_t window : {0, 90}) {
    const Case c{1, 600, 5, window, false, false, true, false, 20};
    const std::vector<Input> x = inputs_of(c);
    const auto expected = reference(c, x);
    const OpResult got = run_op<double>(op_of(c), x);
    CHECK(difference(got.outputs[0], expected[0]) < 1e-12);
    CHECK(difference(got.outputs[1], expected[1]) < 1e-12);
    CHECK(float32_error(op_of(c), x) == "");
    CHECK(thread_error(op_of(c), x) == "");

    // One sequence in many chunks, and 16 of it in one chunk each: the same gradients.
    const OpResult one = run_op<double>(op_of(c), x);
    const Op repeated = [&](Tape& tape, const std::vector<Tensor>& in) {
      const Tokens ids(c);
      std::vector<int32_t> tokens, targets;
      for (int i = 0; i < 16; ++i) {
        tokens.insert(tokens.end(), ids.tokens.begin(), ids.tokens.end());
        targets.insert(targets.end(), ids.targets.begin(), ids.targets.end());
      }
      ops::PointerOptions o;
      o.window = window;
      const ops::PointerResult r = ops::pointer(tape, in[0], in[1], in[2], tape.constant(tokens, {16, 600}),
                                                tape.constant(targets, {16, 600}), o);
      return std::vector<Tensor>{r.log_copy, r.log_sink};
    };
    std::vector<Input> tiled = x;
    for (Input& input : tiled) {
      const std::vector<double> values = input.values;
      for (int i = 1; i < 16; ++i) input.values.insert(input.values.end(), values.begin(), values.end());
      input.shape = input.shape.rank() == 3 ? Shape{16, 600, 5} : Shape{16, 600};
    }
    const OpResult all = run_op<double>(repeated, tiled);
    for (size_t i = 0; i < x.size(); ++i)
      CHECK(difference(std::vector<double>(all.gradients[i].begin(),
                                           all.gradients[i].begin() + one.gradients[i].size()),
                       one.gradients[i]) < 1e-12);
  }
}

TEST_CASE("pointer gradients", "[pointer][gradient]") {
  for (int flags = 0; flags < 16; ++flags) {
    const Case c{
        2, 9, 3, flags % 3 == 0 ? 4 : 0, bool(flags & 1), bool(flags & 2), bool(flags & 4), bool(flags & 8)};
    CAPTURE(flags);
    check_op(op_of(c), inputs_of(c));
  }
  check_op(op_of({1, 21, 2, 0, false, false, true, false, 30}),
           inputs_of({1, 21, 2, 0, false, false, true, false}));
}

TEST_CASE("pointer keeps a mass that underflows, and its gradient", "[pointer]") {
  // Scores of thousands: all but the largest weight of a row underflow, in double too.
  const Case c{1, 24, 2, 0, false, false, true, false, 3};
  const std::vector<Input> x = inputs_of(c, 1000);
  const auto expected = reference(c, x);
  const OpResult got = run_op<double>(op_of(c), x);
  double lowest = 0;
  for (double v : expected[0])
    if (std::isfinite(v)) lowest = std::min(lowest, v);
  REQUIRE(lowest < -800);  // exp of it is 0
  CHECK(difference(got.outputs[0], expected[0]) < 1e-12);
  CHECK(gradient_error(op_of(c), x, {.step = 1e-5, .tolerance = 1e-5}) == "");
  CHECK(float32_error(op_of(c), x, {.float_tolerance = 1e-3}) == "");
}

TEST_CASE("pointer score gradients of a row sum to zero", "[pointer]") {
  // A sink's gradient is its score's; a key's is recovered from dk with one query per row of its own
  // direction: with d = T, q_t = e_t, dk (j, t) = scale · ds_tj.
  constexpr int64_t T = 11;
  const Case c{1, T, T, 0, false, true, true, false, 3};
  std::vector<Input> x = inputs_of(c);
  for (int64_t t = 0; t < T; ++t)
    for (int64_t i = 0; i < T; ++i) x[0].values[t * T + i] = t == i;
  const OpResult r = run_op<double>(op_of(c), x);
  for (int64_t t = 0; t < T; ++t) {
    double sum = r.gradients[2][t], size = std::abs(sum);
    for (int64_t j = 0; j < T; ++j) {
      const double ds = r.gradients[1][j * T + t] * std::sqrt(double(T));
      sum += ds;
      size += std::abs(ds);
    }
    CHECK(std::abs(sum) <= 1e-13 * (1 + size));
  }
}

TEST_CASE("pointer refuses shapes that do not fit", "[pointer]") {
  Tape tape(cpu_backend());
  tape.begin({});
  const Tensor q = tape.scratch(DType::f32, {2, 5, 3}), ids = tape.scratch(DType::i32, {2, 5});
  CHECK(error_of([&] {
          ops::pointer(tape, q, tape.scratch(DType::f32, {2, 4, 3}), {}, ids, ids);
        }) == "[pointer] q (B, T, d) and k (B, T or more, d) expected: got (2, 5, 3), (2, 4, 3)");
  CHECK(error_of([&] { ops::pointer(tape, q, q, tape.scratch(DType::f32, {5}), ids, ids); }) ==
        "[pointer] sink (2, 5) expected: got (5,)");
}
