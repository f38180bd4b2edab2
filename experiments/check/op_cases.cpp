// Calls of every kernel.
#include "experiments/check/op_cases.h"

#include <algorithm>

namespace copylab {
namespace {

class Cases {
 public:
  // `call` takes an OpBench<T>& for T = float and double.
  template <class Call>
  void add(const char* entry, std::string variant, bool tiny, Call call) {
    list_.push_back({entry, std::move(variant), tiny, [call](OpBench<float>& b) { call(b); },
                     [call](OpBench<double>& b) { call(b); }});
  }
  std::vector<OpCase> take() { return std::move(list_); }

 private:
  std::vector<OpCase> list_;
};

template <class Bench>
using NumberOf = typename std::decay_t<Bench>::Number;

constexpr int64_t kSizes[] = {1, 31, 33, 127, 4100};

void add_elementwise(Cases& cases) {
  for (const int64_t n : kSizes) {
    const bool tiny = n == 33;
    const std::string shape = fmt::format("n={}", n);
    cases.add("swiglu", shape, tiny, [=](auto& b) {
      const auto *gate = b.numbers("gate", n, true, 3), *up = b.numbers("up", n);
      b.kernels().swiglu(gate, up, b.numbers("y", n), n);
    });
    for (const int wanted : {1, 2, 3})
      cases.add("swiglu_backward", fmt::format("{} gradients={}", shape, wanted), tiny, [=](auto& b) {
        const auto *gate = b.numbers("gate", n, true, 3), *up = b.numbers("up", n), *dy = b.numbers("dy", n);
        b.kernels().swiglu_backward(gate, up, dy, b.numbers("dgate", n, wanted & 1),
                                    b.numbers("dup", n, wanted & 2), n);
      });
    for (int i = 0; i < 9; ++i) {
      const Unary op = static_cast<Unary>(i);
      // log of numbers that are positive: exp of normal ones.
      cases.add("unary", fmt::format("{} function={}", shape, i), tiny && i == 0, [=](auto& b) {
        auto* x = b.numbers("x", n, true, 2);
        if (op == Unary::log) b.kernels().unary(Unary::exp, x, x, n);
        b.kernels().unary(op, x, b.numbers("y", n), n);
      });
      cases.add("unary_backward", fmt::format("{} function={}", shape, i), tiny && i == 0, [=](auto& b) {
        auto *x = b.numbers("x", n, true, 2), *y = b.numbers("y", n);
        if (op == Unary::log) b.kernels().unary(Unary::exp, x, x, n);
        b.kernels().unary(op, x, y, n);
        b.kernels().unary_backward(op, x, y, b.numbers("dy", n), b.numbers("dx", n), n);
      });
    }
    for (int i = 0; i < 4; ++i) {
      const Binary op = static_cast<Binary>(i);
      cases.add("binary", fmt::format("{} function={}", shape, i), tiny && i == 3, [=](auto& b) {
        const auto *x = b.numbers("a", n, true, 4), *z = b.numbers("b", n, true, 4);
        b.kernels().binary(op, x, z, b.numbers("y", n), n);
      });
      for (const int wanted : {1, 2, 3, 4})  // 4: both are gradients of one tensor
        cases.add("binary_backward", fmt::format("{} function={} gradients={}", shape, i, wanted),
                  tiny && i == 3 && wanted > 2, [=](auto& b) {
                    const auto *x = b.numbers("a", n, true, 4), *z = b.numbers("b", n, true, 4);
                    const auto *y = b.numbers("y", n), *dy = b.numbers("dy", n);
                    auto* da = b.numbers("da", n, wanted != 2);
                    auto* db = wanted == 4 ? da : b.numbers("db", n, wanted & 2);
                    b.kernels().binary_backward(op, x, z, y, dy, da, db, n);
                  });
    }
    for (const bool add : {false, true}) {
      cases.add("affine", fmt::format("{} add={}", shape, add), tiny, [=](auto& b) {
        using T = NumberOf<decltype(b)>;
        const auto* x = b.numbers("x", n);
        b.kernels().affine(x, T(1.5), T(-0.25), b.numbers("y", n), n, add);
      });
      cases.add("dropout", fmt::format("{} add={}", shape, add), tiny, [=](auto& b) {
        using T = NumberOf<decltype(b)>;
        const auto* x = b.numbers("x", n);
        b.kernels().dropout(x, b.numbers("y", n), n, T(0.3), 0x123456789abcdefull, 7, add);
      });
    }
    cases.add("locked_dropout", fmt::format("3x{}x7", n), tiny, [=](auto& b) {
      using T = NumberOf<decltype(b)>;
      const auto* x = b.numbers("x", 21 * n);
      b.kernels().locked_dropout(x, b.numbers("y", 21 * n), 3, n, 7, T(0.3), 0x123456789abcdefull, 7,
                                 n % 4 == 1);
    });
    cases.add("scale_by", shape, tiny, [=](auto& b) {
      const auto *x = b.numbers("x", n), *s = b.numbers("s", 1);
      b.kernels().scale_by(x, s, b.numbers("y", n), n);
    });
    for (const int wanted : {1, 2, 3})
      cases.add("scale_by_backward", fmt::format("{} gradients={}", shape, wanted), tiny, [=](auto& b) {
        const auto *x = b.numbers("x", n), *s = b.numbers("s", 1), *dy = b.numbers("dy", n);
        b.kernels().scale_by_backward(x, s, dy, b.numbers("dx", n, wanted & 1),
                                      b.numbers("ds", 1, wanted & 2), n);
      });
  }
}

void add_reductions(Cases& cases) {
  for (const int64_t n : {1, 31, 33, 127, 4100, 20000}) {
    const bool tiny = n == 4100;
    for (const bool weighted : {false, true}) {
      const std::string shape = fmt::format("n={} weights={}", n, weighted);
      cases.add("weighted_sum", shape, tiny, [=](auto& b) {
        const auto *x = b.numbers("x", n), *w = b.numbers("w", n, weighted);
        b.kernels().weighted_sum(x, w, b.numbers("out", 1), n);
      });
      cases.add("weighted_sum_backward", shape, n == 33, [=](auto& b) {
        const auto *w = b.numbers("w", n, weighted), *dy = b.numbers("dy", 1);
        b.kernels().weighted_sum_backward(w, dy, b.numbers("dx", n), n);
      });
    }
    cases.add("sum_of_squares", fmt::format("n={}", n), tiny,
              [=](auto& b) { b.result("sum", b.kernels().sum_of_squares(b.numbers("x", n), n)); });
    for (int kind = 0; kind < 8; ++kind)
      cases.add("all_finite", fmt::format("n={} kind={}", n, kind), tiny && kind == 2, [=](auto& b) {
        using T = NumberOf<decltype(b)>;
        constexpr T kInf = std::numeric_limits<T>::infinity();
        const T bad[] = {0, std::numeric_limits<T>::quiet_NaN(), kInf, -kInf};
        std::vector<T> x(n, std::numeric_limits<float>::max());
        x[n / 2] = bad[kind % 4];
        const T* data = b.place("x", x);
        b.result("finite", b.kernels().all_finite(data, n, kind >= 4));
      });
  }
  const int64_t shapes[][3] = {{1, 1, 1}, {7, 33, 5}, {130, 31, 31}};
  for (const auto& s : shapes)
    for (const bool match : {false, true})
      cases.add("project_rows", fmt::format("{}x{} rank={} match={}", s[0], s[1], s[2], match), s[0] == 7,
                [n = s[0], dim = s[1], rank = s[2], match](auto& b) {
                  const auto *g = b.numbers("g", n * dim), *basis = b.numbers("basis", dim * rank, true, 0.3);
                  b.kernels().project_rows(g, basis, b.numbers("dx", n * dim), n, dim, rank, match);
                });
}

// (rows, width).
constexpr int64_t kRows[][2] = {{1, 1}, {3, 31}, {33, 33}, {127, 7}, {5, 300}, {600, 9}};

void add_norms(Cases& cases) {
  for (const auto& s : kRows)
    for (int options = 0; options < 4; ++options) {
      const int64_t n = s[0], dim = s[1];
      const bool tiny = n == 33, weighted = options & 1, biased = options & 2;
      const std::string shape = fmt::format("{}x{} weight={}", n, dim, weighted);
      if (!biased) {
        cases.add("rms_norm", shape, tiny, [=](auto& b) {
          using T = NumberOf<decltype(b)>;
          const auto *x = b.numbers("x", n * dim), *w = b.numbers("w", dim, weighted);
          b.kernels().rms_norm(x, w, b.numbers("y", n * dim), b.numbers("inv", n), n, dim, T(1e-5f));
        });
        for (const int wanted : {1, 2, 3})
          cases.add("rms_norm_backward", fmt::format("{} gradients={}", shape, wanted), tiny, [=](auto& b) {
            using T = NumberOf<decltype(b)>;
            const auto *x = b.numbers("x", n * dim), *w = b.numbers("w", dim, weighted);
            auto* inv = b.numbers("inv", n);
            b.kernels().rms_norm(x, w, b.numbers("y", n * dim), inv, n, dim, T(1e-5f));
            b.kernels().rms_norm_backward(x, w, inv, b.numbers("dy", n * dim),
                                          b.numbers("dx", n * dim, wanted & 1),
                                          b.numbers("dw", dim, wanted & 2), n, dim);
          });
      }
      const std::string both = fmt::format("{} bias={}", shape, biased);
      cases.add("layer_norm", both, tiny, [=](auto& b) {
        using T = NumberOf<decltype(b)>;
        const auto *x = b.numbers("x", n * dim), *w = b.numbers("w", dim, weighted);
        const auto* bias = b.numbers("bias", dim, biased);
        b.kernels().layer_norm(x, w, bias, b.numbers("y", n * dim), b.numbers("mean", n), b.numbers("inv", n),
                               n, dim, T(1e-5f));
      });
      for (const int wanted : {1, 2, 4, 7})
        cases.add("layer_norm_backward", fmt::format("{} gradients={}", both, wanted), tiny, [=](auto& b) {
          using T = NumberOf<decltype(b)>;
          const auto *x = b.numbers("x", n * dim), *w = b.numbers("w", dim, weighted);
          const auto* bias = b.numbers("bias", dim, biased);
          auto *mean = b.numbers("mean", n), *inv = b.numbers("inv", n);
          b.kernels().layer_norm(x, w, bias, b.numbers("y", n * dim), mean, inv, n, dim, T(1e-3f));
          b.kernels().layer_norm_backward(
              x, w, mean, inv, b.numbers("dy", n * dim), b.numbers("dx", n * dim, wanted & 1),
              b.numbers("dw", dim, wanted & 2), b.numbers("dbias", dim, wanted & 4), n, dim);
        });
    }
}

void add_linear(Cases& cases) {
  const int64_t shapes[][3] = {{1, 1, 1}, {3, 31, 33}, {127, 5, 7}, {300, 9, 130}};
  for (const auto& s : shapes) {
    const int64_t n = s[0], in = s[1], out = s[2];
    const std::string shape = fmt::format("{}x{}->{}", n, in, out);
    for (const bool biased : {false, true})
      cases.add("linear", fmt::format("{} bias={}", shape, biased), n == 3, [=](auto& b) {
        const auto *x = b.numbers("x", n * in), *w = b.numbers("w", out * in);
        b.kernels().linear(x, w, b.numbers("bias", out, biased), b.numbers("y", n * out), n, in, out);
      });
    for (const int wanted : {1, 2, 4, 7})
      cases.add("linear_backward", fmt::format("{} gradients={}", shape, wanted), n == 3, [=](auto& b) {
        const auto *x = b.numbers("x", n * in), *w = b.numbers("w", out * in), *dy = b.numbers("dy", n * out);
        b.kernels().linear_backward(x, w, dy, b.numbers("dx", n * in, wanted & 1),
                                    b.numbers("dw", out * in, wanted & 2), b.numbers("db", out, wanted & 4),
                                    n, in, out);
      });
  }
}

void add_lm_head(Cases& cases) {
  // (N, D, V, extra rows, K): one of everything, several tiles of rows and of the vocabulary, nothing to
  // choose.
  const int64_t shapes[][5] = {{1, 1, 1, 0, 1},    {3, 7, 33, 1, 2},   {31, 5, 127, 2, 3},
                               {5, 3, 8200, 1, 2}, {1030, 3, 9, 0, 1}, {4, 6, 8191, 3, 4}};
  for (const auto& s : shapes)
    for (const bool excluding : {false, true}) {
      const int64_t n = s[0], dim = s[1], vocab = s[2], rows = s[2] + s[3], k = s[4];
      const std::string shape =
          fmt::format("{}x{} V={}+{} K={} excluded={}", n, dim, vocab, s[3], k, excluding);
      const auto args_of = [=](auto& b) {
        using T = NumberOf<decltype(b)>;
        LmHeadArgs<T> a{};
        a.rows = n;
        a.dim = dim;
        a.vocab = vocab;
        a.weight_rows = rows;
        a.columns = k;
        a.h = b.numbers("h", n * dim);
        a.w = b.numbers("w", rows * dim);
        a.column_ids = b.integers("columns", n * k, -1, rows);
        a.excluded = b.flags("excluded", vocab, 0.3, excluding);
        a.lse = b.numbers("lse", n);
        a.logits = b.numbers("logits", n * k);
        a.shift = b.numbers("shift", n);
        a.argmax = b.integers("argmax", n, 0, 9);
        return a;
      };
      cases.add("lm_head", shape, n == 3, [=](auto& b) { b.kernels().lm_head(args_of(b)); });
      for (const int wanted : {5, 6, 9, 10, 15})  // dh 1, dw 2, dlse 4, dlogits 8
        cases.add("lm_head_backward", fmt::format("{} gradients={}", shape, wanted), n == 3, [=](auto& b) {
          using T = NumberOf<decltype(b)>;
          const LmHeadArgs<T> a = args_of(b);
          b.kernels().lm_head(a);
          b.kernels().lm_head_backward(
              a,
              LmHeadGrads<T>{b.numbers("dlse", n, wanted & 4), b.numbers("dlogits", n * k, wanted & 8),
                             b.numbers("dh", n * dim, wanted & 1), b.numbers("dw", rows * dim, wanted & 2)});
        });
    }
}

void add_rows(Cases& cases) {
  // (n, D, rows of the table): rows that meet rarely, often, and always.
  const int64_t shapes[][3] = {{1, 1, 1}, {31, 3, 127}, {127, 33, 5}, {400, 2, 3}, {200, 5, 1}, {64, 7, 2}};
  for (const auto& s : shapes) {
    const int64_t n = s[0], dim = s[1], rows = s[2];
    const bool tiny = n == 64;
    const std::string shape = fmt::format("{}x{} of {}", n, dim, rows);
    cases.add("embedding", shape, tiny, [=](auto& b) {
      const auto* table = b.numbers("table", rows * dim);
      b.kernels().embedding(table, b.integers("ids", n, 0, rows), b.numbers("y", n * dim), n, dim, rows);
    });
    cases.add("embedding_backward", shape, tiny, [=](auto& b) {
      const auto* dy = b.numbers("dy", n * dim);
      b.kernels().embedding_backward(b.integers("ids", n, 0, rows), dy, b.numbers("dtable", rows * dim), n,
                                     dim, rows);
    });
    for (const bool add : {false, true})
      cases.add("gather_rows", fmt::format("{} add={}", shape, add), tiny, [=](auto& b) {
        const auto* x = b.numbers("x", rows * dim);
        b.kernels().gather_rows(x, b.integers("index", n, -1, rows), b.numbers("y", n * dim), n, dim, rows,
                                add);
      });
    cases.add("scatter_rows_add", shape, tiny, [=](auto& b) {
      const auto* x = b.numbers("x", n * dim);
      b.kernels().scatter_rows_add(x, b.integers("index", n, -1, rows), b.numbers("y", rows * dim), n, dim,
                                   rows);
    });
  }
}

void add_rope(Cases& cases) {
  const int64_t shapes[][3] = {{1, 1, 2}, {31, 3, 6}, {33, 1, 64}, {5, 2, 126}};
  for (const auto& s : shapes)
    for (const int sign : {-1, 1})
      for (const bool add : {false, true})
        cases.add("rope", fmt::format("{}x{}x{} sign={} add={}", s[0], s[1], s[2], sign, add), s[0] == 5,
                  [n = s[0], heads = s[1], d = s[2], sign, add](auto& b) {
                    const int64_t positions = 17;
                    const auto* x = b.numbers("x", n * heads * d);
                    const auto *c = b.numbers("cos", positions * d / 2),
                               *sin = b.numbers("sin", positions * d / 2);
                    b.kernels().rope(x, c, sin, b.integers("positions", n, 0, positions),
                                     b.numbers("y", n * heads * d), n, heads, d, positions, sign, add);
                  });
}

void add_attention(Cases& cases) {
  struct Shape {
    int64_t batch, length, heads, kv_heads, dim, window;
    int options;  // bias 1, allowed 2, marked 4, segment 8, probs 16, segments of 130 positions 32
  };
  const Shape shapes[] = {{1, 1, 1, 1, 1, 0, 16},    {2, 31, 2, 1, 5, 0, 16},   {1, 33, 4, 2, 32, 0, 0},
                          {1, 127, 2, 2, 33, 0, 0},  {1, 70, 2, 1, 70, 9, 0},   {1, 40, 1, 1, 130, 33, 16},
                          {2, 40, 2, 1, 8, 0, 1},    {2, 40, 2, 1, 8, 0, 2},    {2, 40, 2, 1, 8, 0, 4},
                          {2, 40, 2, 1, 8, 0, 8},    {2, 40, 2, 1, 8, 7, 31},   {1, 127, 1, 1, 16, 32, 0},
                          {1, 70, 2, 1, 16, 0, 0},   {1, 150, 3, 1, 64, 0, 0},  {1, 200, 1, 1, 36, 70, 0},
                          {1, 140, 1, 1, 128, 0, 4}, {2, 270, 1, 1, 12, 0, 32}, {1, 140, 2, 1, 64, 100, 3}};
  for (const Shape& s : shapes) {
    const bool tiny = s.length == 33 || (s.length == 70 && s.dim == 16) || s.options == 31;
    const std::string shape = fmt::format("B={} T={} H={}/{} d={} window={} options={}", s.batch, s.length,
                                          s.heads, s.kv_heads, s.dim, s.window, s.options);
    const int64_t queries = s.batch * s.length * s.heads, keys = s.batch * s.length * s.kv_heads;
    const auto args_of = [=](auto& b) {
      using T = NumberOf<decltype(b)>;
      AttentionArgs<T> a{};
      a.batch = s.batch;
      a.length = s.length;
      a.heads = s.heads;
      a.kv_heads = s.kv_heads;
      a.head_dim = s.dim;
      a.window = s.window;
      a.scale = T(0.5);
      a.q = b.numbers("q", queries * s.dim);
      a.k = b.numbers("k", keys * s.dim);
      a.v = b.numbers("v", keys * s.dim);
      a.bias = b.numbers("bias", s.length * s.length, s.options & 1);
      a.allowed = b.flags("allowed", s.batch * s.length * s.length, 0.5, s.options & 2);
      a.marked = b.flags("marked", s.batch * s.length, 0.5, s.options & 4);
      a.segment = b.integers("segment", s.batch * s.length, 0, 2, s.options & 8);
      if (s.options & 32) {
        std::vector<int32_t> documents(s.batch * s.length);
        for (size_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<int32_t>(i / 130);
        a.segment = b.place("documents", documents);
      }
      a.out = b.numbers("out", queries * s.dim);
      a.lse = b.numbers("lse", queries);
      a.probs = b.numbers("probs", queries * s.length, s.options & 16);
      return a;
    };
    cases.add("attention", shape, tiny, [=](auto& b) { b.kernels().attention(args_of(b)); });
    for (const int wanted : {1, 2, 4, 7}) {
      if (wanted < 7 && s.length > 130) continue;  // what is wanted does not depend on the length
      cases.add("attention_backward", fmt::format("{} gradients={}", shape, wanted), tiny && wanted == 7,
                [=](auto& b) {
                  using T = NumberOf<decltype(b)>;
                  const AttentionArgs<T> a = args_of(b);
                  b.kernels().attention(a);
                  b.kernels().attention_backward(
                      a, AttentionGrads<T>{b.numbers("dout", queries * s.dim),
                                           b.numbers("dq", queries * s.dim, wanted & 1),
                                           b.numbers("dk", keys * s.dim, wanted & 2),
                                           b.numbers("dv", keys * s.dim, wanted & 4)});
                });
    }
  }
}

void add_copy_mixture(Cases& cases) {
  for (const int64_t n : {1, 33, 130})
    for (const double floor : {0.0, 0.1})
      for (const bool drop_sink : {false, true}) {
        const std::string shape = fmt::format("n={} floor={} drop_sink={}", n, floor, drop_sink);
        const auto args_of = [=](auto& b) {
          using T = NumberOf<decltype(b)>;
          constexpr T kMinusInf = -std::numeric_limits<T>::infinity();
          // Log-probabilities: exact 0 and 1 among them, and gates that are shut and open.
          const auto logs = [&](const char* name, int64_t period) {
            const Random random(20, name);
            std::vector<T> x(n);
            for (int64_t i = 0; i < n; ++i) {
              x[i] = -std::fabs(static_cast<float>(3 * random.normal(i)));
              if (i % period == 1) x[i] = kMinusInf;
              if (i % period == 2) x[i] = 0;
            }
            return b.place(name, x);
          };
          CopyMixtureArgs<T> a{};
          a.n = n;
          a.gate_floor = static_cast<float>(floor);
          a.drop_sink = drop_sink;
          a.lm = logs("lm", 7);
          a.gate_logit = b.numbers("gate_logit", n, true, 12);
          a.log_copy = logs("log_copy", 5);
          a.log_sink = logs("log_sink", 11);
          a.nll = b.numbers("nll", n);
          return a;
        };
        cases.add("copy_mixture", shape, n == 33, [=](auto& b) { b.kernels().copy_mixture(args_of(b)); });
        for (const int wanted : {1, 2, 4, 8, 15})
          cases.add(
              "copy_mixture_backward", fmt::format("{} gradients={}", shape, wanted), n == 33, [=](auto& b) {
                using T = NumberOf<decltype(b)>;
                const CopyMixtureArgs<T> a = args_of(b);
                b.kernels().copy_mixture(a);
                b.kernels().copy_mixture_backward(
                    a,
                    CopyMixtureGrads<T>{b.numbers("dnll", n), b.numbers("dlm", n, wanted & 1),
                                        b.numbers("dgate", n, wanted & 2), b.numbers("dcopy", n, wanted & 4),
                                        b.numbers("dsink", n, wanted & 8)});
              });
      }
}

void add_pointer(Cases& cases) {
  struct Shape {
    int64_t batch, length, dim, memory, window;
    int options;  // sink 1, segment 2, copy_self 4, next token 8, weights 16
  };
  const Shape shapes[] = {{1, 1, 1, 0, 0, 0},     {2, 31, 5, 0, 0, 17},   {1, 33, 33, 0, 0, 1},
                          {2, 40, 8, 0, 0, 31},   {2, 40, 8, 0, 0, 8},    {1, 127, 4, 0, 9, 5},
                          {1, 200, 3, 0, 0, 17},  {2, 200, 3, 0, 33, 27}, {2, 17, 6, 12, 0, 17},
                          {2, 20, 6, 30, 11, 31}, {1, 150, 2, 40, 25, 9}, {3, 5, 4, 7, 0, 4}};
  for (const Shape& s : shapes) {
    const bool tiny = s.length == 20;
    const std::string shape = fmt::format("B={} T={} d={} M={} window={} options={}", s.batch, s.length,
                                          s.dim, s.memory, s.window, s.options);
    const int64_t rows = s.batch * s.length, keys = s.batch * (s.memory + s.length);
    const auto args_of = [=](auto& b) {
      using T = NumberOf<decltype(b)>;
      PointerArgs<T> a{};
      a.batch = s.batch;
      a.length = s.length;
      a.dim = s.dim;
      a.memory = s.memory;
      a.window = s.window;
      a.shift = s.options & 8 ? 1 : 0;
      a.copy_self = s.options & 4;
      a.scale = T(2);  // so that weights differ by many orders
      a.q = b.numbers("q", rows * s.dim);
      a.k = b.numbers("k", keys * s.dim);
      a.sink = b.numbers("sink", rows, s.options & 1);
      a.tokens = b.integers("tokens", keys, s.memory > 0 ? -1 : 0, 6);  // -1: an empty key of the memory
      a.targets = b.integers("targets", rows, -1, 7);                   // 6 is nowhere
      a.segment = b.integers("segment", keys, 0, 2, s.options & 2);
      a.log_copy = b.numbers("log_copy", rows);
      a.log_sink = b.numbers("log_sink", rows);
      a.lse = b.numbers("lse", rows);
      a.weights = b.numbers("weights", rows * (s.memory + s.length), s.options & 16);
      return a;
    };
    cases.add("pointer", shape, tiny, [=](auto& b) { b.kernels().pointer(args_of(b)); });
    for (const int wanted :
         {5, 6, 9, 10, 15, 31}) {  // dq 1, dk 2, from log_copy 4, from log_sink 8, dsink 16
      if ((wanted & 16) && !(s.options & 1)) continue;
      cases.add("pointer_backward", fmt::format("{} gradients={}", shape, wanted), tiny && wanted == 31,
                [=](auto& b) {
                  using T = NumberOf<decltype(b)>;
                  const PointerArgs<T> a = args_of(b);
                  b.kernels().pointer(a);
                  b.kernels().pointer_backward(a, PointerGrads<T>{b.numbers("dlog_copy", rows, wanted & 4),
                                                                  b.numbers("dlog_sink", rows, wanted & 8),
                                                                  b.numbers("dq", rows * s.dim, wanted & 1),
                                                                  b.numbers("dk", keys * s.dim, wanted & 2),
                                                                  b.numbers("dsink", rows, wanted & 16)});
                });
    }
  }
}

void add_lstm(Cases& cases) {
  const int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {2, 9, 33}};
  const Zoneout zoneouts[] = {{0, 0, true, 0, 0},
                              {0.3, 0.1, true, 0xfedcba9876543210ull, 3},
                              {0.3, 0, true, 5, 4},
                              {0.3, 0.1, false, 0, 0}};
  for (const auto& s : shapes)
    for (int kind = 0; kind < 4; ++kind)
      for (const bool biased : {false, true}) {
        const int64_t batch = s[0], length = s[1], hidden = s[2], width = 4 * hidden;
        const std::string shape =
            fmt::format("B={} T={} H={} zoneout={} bias={}", batch, length, hidden, kind, biased);
        const bool tiny = length == 5 && kind == 1;
        const auto args_of = [=, zoneout = zoneouts[kind]](auto& b) {
          using T = NumberOf<decltype(b)>;
          LstmArgs<T> a{};
          a.batch = batch;
          a.length = length;
          a.hidden = hidden;
          a.zoneout = zoneout;
          a.x_gates = b.numbers("x_gates", batch * length * width);
          a.w_hh = b.numbers("w_hh", width * hidden, true, 0.3);
          a.bias = b.numbers("bias", width, biased);
          a.h0 = b.numbers("h0", batch * hidden);
          a.c0 = b.numbers("c0", batch * hidden);
          a.h = b.numbers("h", batch * length * hidden);
          a.c = b.numbers("c", batch * length * hidden);
          a.gates = b.numbers("gates", batch * length * width);
          a.h_last = b.numbers("h_last", batch * hidden);
          a.c_last = b.numbers("c_last", batch * hidden);
          return a;
        };
        cases.add("lstm", shape, tiny, [=](auto& b) { b.kernels().lstm(args_of(b)); });
        for (const int wanted : {1, 2, 4, 7})  // from h, h_last, c_last
          cases.add("lstm_backward", fmt::format("{} from={}", shape, wanted), tiny && wanted == 7,
                    [=](auto& b) {
                      using T = NumberOf<decltype(b)>;
                      const LstmArgs<T> a = args_of(b);
                      b.kernels().lstm(a);
                      const bool all = wanted == 7;
                      b.kernels().lstm_backward(
                          a, LstmGrads<T>{b.numbers("dh", batch * length * hidden, wanted & 1),
                                          b.numbers("dh_last", batch * hidden, wanted & 2),
                                          b.numbers("dc_last", batch * hidden, wanted & 4),
                                          b.numbers("dx_gates", batch * length * width, all || wanted == 1),
                                          b.numbers("dw_hh", width * hidden, all || wanted == 2),
                                          b.numbers("dbias", width, all || wanted == 4),
                                          b.numbers("dh0", batch * hidden, all || wanted == 1),
                                          b.numbers("dc0", batch * hidden, all || wanted == 2)});
                    });
      }
}

// Every number decays, or ranges of them by turns, of which one is empty.
template <class T>
DecayRanges decay_ranges(OpBench<T>& b, int64_t n, bool all) {
  if (all) return {};
  return {b.place("ends", std::vector<int64_t>{n / 3, n / 2, n / 2, n}), 4, n % 2 == 0};
}

void add_optimizers(Cases& cases) {
  for (const int64_t n : kSizes)
    for (const bool zero : {false, true}) {  // and all numbers decay, or not
      const std::string shape = fmt::format("n={} zero_grad={}", n, zero);
      cases.add("adamw", shape, n == 33, [=](auto& b) {
        using T = NumberOf<decltype(b)>;
        AdamWArgs<T> a{};
        a.n = n;
        a.param = b.numbers("param", n);
        a.grad = b.numbers("grad", n);
        a.m = b.numbers("m", n);
        a.v = b.numbers("v", n);
        b.kernels().unary(Unary::square, a.v, a.v, n);
        a.lr = T(0.125);
        a.beta1 = T(0.875);
        a.beta2 = T(0.96875);
        a.eps = T(0x1p-20);
        a.weight_decay = T(0.25);
        a.bias1 = T(0.5);
        a.bias2 = T(0.25);
        a.grad_scale = T(0.75);
        a.zero_grad = zero;
        a.ranges = decay_ranges(b, n, zero);
        b.kernels().adamw(a);
      });
      cases.add("sgd", shape, n == 33, [=](auto& b) {
        using T = NumberOf<decltype(b)>;
        auto* param = b.numbers("param", n);
        b.kernels().sgd(param, b.numbers("grad", n), n, T(0.125), T(0.25), T(0.75), zero,
                        decay_ranges(b, n, zero));
      });
    }
}

}  // namespace

std::vector<OpCase> op_cases() {
  Cases cases;
  add_elementwise(cases);
  add_reductions(cases);
  add_norms(cases);
  add_linear(cases);
  add_lm_head(cases);
  add_rows(cases);
  add_rope(cases);
  add_attention(cases);
  add_pointer(cases);
  add_copy_mixture(cases);
  add_lstm(cases);
  add_optimizers(cases);
  return cases.take();
}

OpError op_error(const Arrays& got, const Arrays& exact) {
  expect(got.size() == exact.size(), "op_error", "arrays of one call: got {}, {}", got.size(), exact.size());
  OpError worst;
  for (const auto& [name, want] : exact) {
    const std::vector<double>& have = got.at(name);
    expect(have.size() == want.size(), "op_error", "{}: {} numbers, {} expected", name, have.size(),
           want.size());
    double largest = 1e-3;
    for (const double x : want)
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < want.size(); ++i) {
      if (have[i] == want[i] || (std::isnan(have[i]) && std::isnan(want[i]))) continue;
      double error = std::abs(have[i] - want[i]) / largest;
      if (!std::isfinite(have[i]) || !std::isfinite(want[i])) error = std::numeric_limits<double>::infinity();
      if (error > worst.error) worst = {error, name};
    }
  }
  return worst;
}

}  // namespace copylab
