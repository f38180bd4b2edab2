// lm_head on the CPU: against plain loops in double, finite differences, and the properties of a log-sum-exp.
#include <cmath>
#include <limits>

#include "core/backend.h"
#include "tests/core/cpu/buffers.h"

using namespace copylab;
using copylab::testing::Guarded;
using copylab::testing::normal;

namespace {

// Inputs and outputs of one call.
template <class T>
struct Head {
  int64_t n, dim, vocab, weight_rows, k;
  Guarded<T> h, w;
  Guarded<int32_t> columns;
  Guarded<uint8_t> excluded;
  bool use_excluded = false;
  Guarded<T> lse, logits, shift;
  Guarded<int32_t> argmax;

  Head(int64_t n_, int64_t dim_, int64_t vocab_, int64_t extra, int64_t k_, double scale = 1.0)
      : n(n_),
        dim(dim_),
        vocab(vocab_),
        weight_rows(vocab_ + extra),
        k(k_),
        h(normal<T>("h", n_ * dim_)),
        w(normal<T>("w", (vocab_ + extra) * dim_, scale)),
        columns(n_ * k_),
        excluded(vocab_),
        lse(n_, T(5)),
        logits(n_ * k_, T(5)),
        shift(n_, T(5)),
        argmax(n_, 5) {
    const Random random(5, "columns");
    for (int64_t i = 0; i < n * k; ++i) {
      columns[i] = static_cast<int32_t>(random.below(i, weight_rows + 1)) - 1;  // -1 is "ignored"
    }
  }
  LmHeadArgs<T> args() {
    return {.rows = n,
            .dim = dim,
            .vocab = vocab,
            .weight_rows = weight_rows,
            .columns = k,
            .h = h.data(),
            .w = w.data(),
            .column_ids = columns.data(),
            .excluded = use_excluded ? excluded.data() : nullptr,
            .lse = lse.data(),
            .logits = logits.data(),
            .shift = shift.data(),
            .argmax = argmax.data()};
  }
  void forward() { cpu_backend().kernels<T>().lm_head(args()); }
  void backward(const LmHeadGrads<T>& g) { cpu_backend().kernels<T>().lm_head_backward(args(), g); }
  bool intact() const { return lse.intact() && logits.intact() && shift.intact() && argmax.intact(); }

  double logit(int64_t i, int64_t v) const {
    double sum = 0;
    for (int64_t d = 0; d < dim; ++d) sum += double(h[i * dim + d]) * double(w[v * dim + d]);
    return sum;
  }
  bool counts(int64_t v) const { return !use_excluded || !excluded[v]; }
  // Log-sum-exp of a row in double, not shifted; -inf where nothing is left.
  double exact_lse(int64_t i) const {
    double max = -INFINITY, sum = 0;
    for (int64_t v = 0; v < vocab; ++v) {
      if (counts(v)) max = std::max(max, logit(i, v));
    }
    for (int64_t v = 0; v < vocab; ++v) {
      if (counts(v)) sum += std::exp(logit(i, v) - max);
    }
    return max + std::log(sum);
  }
};

template <class T>
void check_against_loops(Head<T>& head, double tolerance) {
  head.forward();
  REQUIRE(head.intact());
  double worst = 0;
  for (int64_t i = 0; i < head.n; ++i) {
    int32_t best = -1;
    for (int64_t v = 0; v < head.vocab; ++v) {
      if (head.counts(v) && (best < 0 || head.logit(i, v) > head.logit(i, best)))
        best = static_cast<int32_t>(v);
    }
    if (best < 0) {
      CHECK(head.lse[i] == -std::numeric_limits<T>::infinity());
      CHECK(head.shift[i] == 0);
      CHECK(head.argmax[i] == -1);
    } else {
      CHECK(head.argmax[i] == best);
      worst = std::max(worst, std::fabs(double(head.lse[i]) + head.shift[i] - head.exact_lse(i)));
      worst = std::max(worst, std::fabs(head.shift[i] - head.logit(i, best)));
    }
    for (int64_t j = 0; j < head.k; ++j) {
      const int32_t id = head.columns[i * head.k + j];
      const double want = id < 0 ? 0 : head.logit(i, id) - head.shift[i];
      worst = std::max(worst, std::fabs(head.logits[i * head.k + j] - want));
    }
  }
  CHECK(worst < tolerance);
}

// Gradients in double by their formulas, added to what was there.
template <class T>
void check_gradients(Head<T>& head, double tolerance) {
  const auto dlse = normal<T>("dlse", head.n), dlogits = normal<T>("dlogits", head.n * head.k);
  auto dh = normal<T>("dh", head.n * head.dim), dw = normal<T>("dw", head.weight_rows * head.dim);
  std::vector<double> want_dh(dh.data(), dh.data() + dh.size()), want_dw(dw.data(), dw.data() + dw.size());
  head.forward();
  head.backward({dlse.data(), dlogits.data(), dh.data(), dw.data()});
  for (int64_t i = 0; i < head.n; ++i) {
    const double lse = head.exact_lse(i);
    const auto add = [&](int64_t v, double g) {
      for (int64_t d = 0; d < head.dim; ++d) {
        want_dh[i * head.dim + d] += g * double(head.w[v * head.dim + d]);
        want_dw[v * head.dim + d] += g * double(head.h[i * head.dim + d]);
      }
    };
    for (int64_t v = 0; v < head.vocab; ++v) {
      if (head.counts(v)) add(v, double(dlse[i]) * std::exp(head.logit(i, v) - lse));
    }
    for (int64_t j = 0; j < head.k; ++j) {
      if (head.columns[i * head.k + j] >= 0)
        add(head.columns[i * head.k + j], double(dlogits[i * head.k + j]));
    }
  }
  double worst = 0;
  for (int64_t i = 0; i < dh.size(); ++i) worst = std::max(worst, std::fabs(double(dh[i]) - want_dh[i]));
  for (int64_t i = 0; i < dw.size(); ++i) worst = std::max(worst, std::fabs(double(dw[i]) - want_dw[i]));
  CHECK(worst < tolerance);
  CHECK((dh.intact() && dw.intact()));

  // Asked for alone, each gradient is the same; and each of dlse, dlogits alone adds its own part.
  auto only_dh = normal<T>("dh", head.n * head.dim), only_dw = normal<T>("dw", head.weight_rows * head.dim);
  head.backward({dlse.data(), dlogits.data(), only_dh.data(), nullptr});
  head.backward({dlse.data(), dlogits.data(), nullptr, only_dw.data()});
  CHECK(only_dh.same_bits(dh));
  CHECK(only_dw.same_bits(dw));
  auto parts_dh = normal<T>("dh", head.n * head.dim), parts_dw = normal<T>("dw", head.weight_rows * head.dim);
  head.backward({dlse.data(), nullptr, parts_dh.data(), parts_dw.data()});
  head.backward({nullptr, dlogits.data(), parts_dh.data(), parts_dw.data()});
  double apart = 0;
  for (int64_t i = 0; i < dh.size(); ++i) apart = std::max(apart, std::fabs(double(dh[i]) - parts_dh[i]));
  for (int64_t i = 0; i < dw.size(); ++i) apart = std::max(apart, std::fabs(double(dw[i]) - parts_dw[i]));
  CHECK(apart < tolerance);
}

}  // namespace

TEMPLATE_TEST_CASE("lm_head and its gradients against plain loops", "[lm_head]", float, double) {
  using T = TestType;
  const double tolerance = sizeof(T) == 4 ? 1e-4 : 1e-12;
  // (N, D, V, extra rows, K): tiles and slabs full and ragged, one of everything, nothing to choose.
  const int64_t shapes[][5] = {{1, 1, 1, 0, 1},     {3, 7, 1, 1, 2},    {1, 33, 500, 0, 1},
                               {17, 5, 97, 2, 3},   {40, 8, 192, 1, 0}, {257, 9, 300, 1, 2},
                               {530, 3, 101, 0, 1}, {5, 300, 40, 1, 2}, {70, 1100, 23, 0, 1}};
  for (const auto& s : shapes) {
    CAPTURE(s[0], s[1], s[2], s[3], s[4]);
    for (bool exclude : {false, true}) {
      Head<T> head(s[0], s[1], s[2], s[3], s[4], 1.0 / std::sqrt(double(s[1])));
      head.use_excluded = exclude;
      for (int64_t v = 0; v < head.vocab; ++v) head.excluded[v] = v % 3 == 1;
      check_against_loops(head, tolerance);
      check_gradients(head, 10 * tolerance);
    }
  }
}

TEST_CASE("lm_head over many slabs", "[lm_head]") {
  Head<float> head(6, 4, 12000, 1, 2);
  check_against_loops(head, 1e-4);
  check_gradients(head, 1e-3);
}

TEST_CASE("lm_head gradients agree with finite differences", "[lm_head]") {
  Head<double> head(5, 7, 103, 1, 2, 0.5);
  head.use_excluded = true;
  for (int64_t v = 50; v < 60; ++v) head.excluded[v] = 1;
  const auto dlse = normal<double>("dlse", head.n), dlogits = normal<double>("dlogits", head.n * head.k);
  const auto loss = [&] {
    head.forward();
    double sum = 0;
    for (int64_t i = 0; i < head.n; ++i) {
      sum += dlse[i] * (head.lse[i] + head.shift[i]);
      for (int64_t j = i * head.k; j < (i + 1) * head.k; ++j) {
        if (head.columns[j] >= 0) sum += dlogits[j] * (head.logits[j] + head.shift[i]);
      }
    }
    return sum;
  };
  Guarded<double> dh(head.h.size()), dw(head.w.size());
  loss();
  head.backward({dlse.data(), dlogits.data(), dh.data(), dw.data()});
  const auto check = [&](Guarded<double>& x, const Guarded<double>& gradient) {
    double worst = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      const double at = x[i], step = 1e-5;
      x[i] = at + step;
      const double up = loss();
      x[i] = at - step;
      const double down = loss();
      x[i] = at;
      worst = std::max(worst, std::fabs((up - down) / (2 * step) - gradient[i]));
    }
    CHECK(worst < 1e-8);
  };
  check(head.h, dh);
  check(head.w, dw);
}

TEST_CASE("lm_head of nothing: no rows, no columns, all excluded", "[lm_head]") {
  Head<float> none(0, 8, 100, 0, 2);
  none.forward();
  Guarded<float> dw(none.w.size(), 2.f);
  none.backward({none.lse.data(), none.logits.data(), none.h.data(), dw.data()});
  for (int64_t i = 0; i < dw.size(); ++i) REQUIRE(dw[i] == 2.f);

  Head<float> excluded(20, 8, 130, 1, 2);
  excluded.use_excluded = true;
  for (int64_t v = 0; v < 130; ++v) excluded.excluded[v] = 1;
  check_against_loops(excluded, 1e-4);
  const Guarded<float> dlse(20, 1.f);
  Guarded<float> dh(excluded.h.size(), 3.f), dw2(excluded.w.size(), 3.f);
  excluded.backward({dlse.data(), nullptr, dh.data(), dw2.data()});
  for (int64_t i = 0; i < dh.size(); ++i) REQUIRE(dh[i] == 3.f);
  for (int64_t i = 0; i < dw2.size(); ++i) REQUIRE(dw2[i] == 3.f);
}

TEST_CASE("equal logits give log V and argmax 0; ties go to the smallest index", "[lm_head]") {
  const int64_t vocab = 1000;
  Head<float> head(3, 2, vocab, 0, 1);
  for (int64_t v = 0; v < vocab; ++v) {
    head.w[2 * v] = 0.5f;
    head.w[2 * v + 1] = -0.25f;
  }
  head.forward();
  for (int i = 0; i < 3; ++i) {
    CHECK(head.lse[i] == Approx(std::log(1000.0)).epsilon(1e-6));
    CHECK(head.argmax[i] == 0);
    CHECK(head.logits[i] == 0.f);
  }
  // The largest logit at two columns, in different slabs.
  for (int64_t i = 0; i < 3; ++i) head.h[2 * i] = 1, head.h[2 * i + 1] = 0;
  head.w[2 * 207] = head.w[2 * 871] = 2.f;
  head.forward();
  for (int i = 0; i < 3; ++i) CHECK(head.argmax[i] == 207);
}

TEST_CASE("an offset common to all logits changes only shift", "[lm_head]") {
  // Dimension 0 of h is 1 and of W is the offset. Logits are multiples of 1/16, so they are exact at 1e6.
  for (const float offset : {1e4f, 1e6f, -1e6f}) {
    const int64_t n = 9, dim = 3, vocab = 700;
    Head<float> plain(n, dim, vocab, 0, 2), moved(n, dim, vocab, 0, 2);
    const Random random(1, "sixteenths");
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t d = 1; d < dim; ++d) plain.h[i * dim + d] = float(random.below(i * dim + d, 9)) / 4 - 1;
      plain.h[i * dim] = 1;
    }
    for (int64_t v = 0; v < vocab; ++v) {
      for (int64_t d = 1; d < dim; ++d) plain.w[v * dim + d] = float(random.below(v * dim + d, 17)) / 4 - 2;
      plain.w[v * dim] = 0;
    }
    moved.h = plain.h;
    moved.w = plain.w;
    for (int64_t v = 0; v < vocab; ++v) moved.w[v * dim] = offset;
    plain.forward();
    moved.forward();
    CHECK(plain.lse.same_bits(moved.lse));
    CHECK(plain.logits.same_bits(moved.logits));
    CHECK(plain.argmax.same_bits(moved.argmax));
    for (int64_t i = 0; i < n; ++i) CHECK(moved.shift[i] == plain.shift[i] + offset);
    const Guarded<float> dlse(n, 1.f);
    Guarded<float> dw(plain.w.size()), dw_moved(plain.w.size());
    plain.backward({dlse.data(), nullptr, nullptr, dw.data()});
    moved.backward({dlse.data(), nullptr, nullptr, dw_moved.data()});
    CHECK(dw.same_bits(dw_moved));
  }
}

TEST_CASE("extreme logits: a certain token has nll 0 and no gradient; NaN is not hidden", "[lm_head]") {
  Head<float> head(2, 1, 300, 0, 1);
  for (int64_t v = 0; v < 300; ++v) head.w[v] = v == 123 ? 1e4f : -1e4f;
  head.h[0] = head.h[1] = 1;
  head.columns[0] = 123;
  head.columns[1] = 7;
  head.forward();
  CHECK(head.lse[0] - head.logits[0] == 0.f);
  CHECK(head.lse[1] - head.logits[1] == 2e4f);
  const float dlse[2] = {1, 1}, dlogits[2] = {-1, -1};
  Guarded<float> dw(300);
  head.backward({dlse, dlogits, nullptr, dw.data()});
  CHECK(dw[123] == 1.f);  // 1 - 1 of row 0, 1 of row 1
  CHECK(dw[7] == -1.f);

  head.w[200] = std::numeric_limits<float>::quiet_NaN();
  head.forward();
  CHECK(std::isnan(head.lse[0]));
}

TEST_CASE("gradient of -log p sums to zero over the vocabulary", "[lm_head]") {
  Head<double> head(11, 6, 333, 0, 1);
  for (int64_t i = 0; i < head.n; ++i) head.columns[i] = static_cast<int32_t>(30 * i);
  const Guarded<double> dlse(head.n, 1.0), dlogits(head.n, -1.0);
  Guarded<double> dw(head.w.size());
  head.forward();
  head.backward({dlse.data(), dlogits.data(), nullptr, dw.data()});
  for (int64_t d = 0; d < head.dim; ++d) {
    double sum = 0;
    for (int64_t v = 0; v < head.vocab; ++v) sum += dw[v * head.dim + d];
    CHECK(std::fabs(sum) < 1e-12);
  }
}

TEST_CASE("lm_head gives the same bits for any number of threads", "[lm_head][threads]") {
  testing::same_for_all_threads([&] {
    Head<float> head(203, 24, 5000, 1, 2, 0.3);
    head.forward();
    const auto dlse = normal<float>("dlse", head.n), dlogits = normal<float>("dlogits", head.n * head.k);
    Guarded<float> dh(head.h.size()), dw(head.w.size());
    head.backward({dlse.data(), dlogits.data(), dh.data(), dw.data()});
    return std::vector{head.lse, head.logits, head.shift, dh, dw};
  });
}
