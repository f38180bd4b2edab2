// linear on the CPU, and the matrix product under it, against plain loops in double.
#include <cmath>

#include "core/backend.h"
#include "core/cpu/gemm.h"
#include "tests/core/cpu/buffers.h"

using namespace copylab;
using copylab::testing::Guarded;
using copylab::testing::normal;

namespace {

// Largest |got - want| over the bound n·eps·(sum of |terms|) of a sum of products.
template <class T>
struct Worst {
  double ratio = 0;
  void see(T got, double want, double magnitude, int64_t terms) {
    const double bound = (terms + 2) * double(std::numeric_limits<T>::epsilon()) * (magnitude + 1e-30);
    ratio = std::max(ratio, std::fabs(double(got) - want) / bound);
  }
};

template <class T>
double check_multiply(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, bool add) {
  const auto a = normal<T>("a", m * k), b = normal<T>("b", k * n);
  const int64_t c_row = n + 3;  // the gap must stay as it was
  auto c = normal<T>("c", m * c_row);
  const auto before = c;
  const cpu::gemm::View<T> va =
      transpose_a ? cpu::gemm::View<T>{a.data(), 1, m} : cpu::gemm::View<T>{a.data(), k, 1};
  const cpu::gemm::View<T> vb =
      transpose_b ? cpu::gemm::View<T>{b.data(), 1, k} : cpu::gemm::View<T>{b.data(), n, 1};
  cpu::gemm::multiply<T>(m, n, k, va, vb, c.data(), c_row, add);
  Worst<T> worst;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c_row; ++j) {
      double sum = add ? double(before[i * c_row + j]) : 0, magnitude = std::fabs(sum);
      if (j >= n) {
        if (c[i * c_row + j] != before[i * c_row + j]) return 1e9;
        continue;
      }
      for (int64_t x = 0; x < k; ++x) {
        const double term =
            double(va.data[i * va.row + x * va.col]) * double(vb.data[x * vb.row + j * vb.col]);
        sum += term;
        magnitude += std::fabs(term);
      }
      worst.see(c[i * c_row + j], sum, magnitude, k);
    }
  }
  return c.intact() ? worst.ratio : 1e9;
}

}  // namespace

TEMPLATE_TEST_CASE("multiply is the matrix product for every layout and odd shape", "[gemm]", float, double) {
  const int64_t shapes[][3] = {{1, 1, 1},      {1, 33, 7},   {13, 1, 5},    {12, 32, 256},
                               {25, 65, 257},  {37, 16, 64}, {5, 31, 600},  {97, 129, 33},
                               {64, 64, 1030}, {3, 2100, 9}, {130, 70, 512}};
  for (const auto& s : shapes) {
    for (int layout = 0; layout < 8; ++layout) {
      CAPTURE(s[0], s[1], s[2], layout);
      CHECK(check_multiply<TestType>(s[0], s[1], s[2], layout & 1, layout & 2, layout & 4) < 1);
    }
  }
}

TEST_CASE(
    "multiply of nothing: depth 0 overwrites with zeros, adds nothing, and empty results are left alone",
    "[gemm]") {
  auto c = normal<float>("c", 6);
  const auto before = c;
  cpu::gemm::multiply<float>(2, 3, 0, {nullptr, 0, 1}, {nullptr, 3, 1}, c.data(), 3, true);
  CHECK(c.same_bits(before));
  cpu::gemm::multiply<float>(0, 3, 4, {nullptr, 4, 1}, {c.data(), 0, 0}, c.data(), 3, false);
  CHECK(c.same_bits(before));
  cpu::gemm::multiply<float>(2, 3, 0, {nullptr, 0, 1}, {nullptr, 3, 1}, c.data(), 3, false);
  for (int i = 0; i < 6; ++i) CHECK(c[i] == 0);
  CHECK(c.intact());
}

TEST_CASE("multiply handles blocks of B larger than one packed block", "[gemm]") {
  CHECK(check_multiply<float>(14, 2049, 300, false, true, true) < 1);
  CHECK(check_multiply<float>(9, 40, 17000, true, false, false) < 1);
}

TEMPLATE_TEST_CASE("linear and its gradients against plain loops", "[linear]", float, double) {
  using T = TestType;
  const auto& k = cpu_backend().kernels<T>();
  const int64_t shapes[][3] = {{1, 1, 1}, {7, 5, 3}, {65, 33, 47}, {130, 64, 192}, {0, 4, 5}};
  for (const auto& s : shapes) {
    const int64_t n = s[0], in = s[1], out = s[2];
    CAPTURE(n, in, out);
    const auto x = normal<T>("x", n * in), w = normal<T>("w", out * in), bias = normal<T>("bias", out),
               dy = normal<T>("dy", n * out);
    for (bool with_bias : {false, true}) {
      Guarded<T> y(n * out, T(5));
      k.linear(x.data(), w.data(), with_bias ? bias.data() : nullptr, y.data(), n, in, out);
      Worst<T> worst;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t o = 0; o < out; ++o) {
          double sum = with_bias ? double(bias[o]) : 0, magnitude = std::fabs(sum);
          for (int64_t d = 0; d < in; ++d) {
            sum += double(x[i * in + d]) * double(w[o * in + d]);
            magnitude += std::fabs(double(x[i * in + d]) * double(w[o * in + d]));
          }
          worst.see(y[i * out + o], sum, magnitude, in);
        }
      }
      CHECK(worst.ratio < 1);
      CHECK(y.intact());
    }
    auto dx = normal<T>("dx", n * in), dw = normal<T>("dw", out * in), dbias = normal<T>("dbias", out);
    const auto dx0 = dx, dw0 = dw, dbias0 = dbias;
    k.linear_backward(x.data(), w.data(), dy.data(), dx.data(), dw.data(), dbias.data(), n, in, out);
    Worst<T> worst;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t d = 0; d < in; ++d) {
        double sum = double(dx0[i * in + d]), magnitude = std::fabs(sum);
        for (int64_t o = 0; o < out; ++o) {
          sum += double(dy[i * out + o]) * double(w[o * in + d]);
          magnitude += std::fabs(double(dy[i * out + o]) * double(w[o * in + d]));
        }
        worst.see(dx[i * in + d], sum, magnitude, out);
      }
    }
    for (int64_t o = 0; o < out; ++o) {
      double column = double(dbias0[o]), column_magnitude = std::fabs(column);
      for (int64_t i = 0; i < n; ++i) {
        column += double(dy[i * out + o]);
        column_magnitude += std::fabs(double(dy[i * out + o]));
      }
      worst.see(dbias[o], column, column_magnitude, n);
      for (int64_t d = 0; d < in; ++d) {
        double sum = double(dw0[o * in + d]), magnitude = std::fabs(sum);
        for (int64_t i = 0; i < n; ++i) {
          sum += double(dy[i * out + o]) * double(x[i * in + d]);
          magnitude += std::fabs(double(dy[i * out + o]) * double(x[i * in + d]));
        }
        worst.see(dw[o * in + d], sum, magnitude, n);
      }
    }
    CHECK(worst.ratio < 1);
    CHECK((dx.intact() && dw.intact() && dbias.intact()));
    k.linear_backward(x.data(), w.data(), dy.data(), nullptr, nullptr, nullptr, n, in, out);
  }
}

TEST_CASE("linear gives the same bits for any number of threads", "[linear][threads]") {
  const auto& k = cpu_backend().kernels<float>();
  const int64_t n = 331, in = 70, out = 190;
  const auto x = normal<float>("x", n * in), w = normal<float>("w", out * in),
             bias = normal<float>("bias", out), dy = normal<float>("dy", n * out);
  testing::same_for_all_threads([&] {
    Guarded<float> y(n * out), dx(n * in), dw(out * in), dbias(out);
    k.linear(x.data(), w.data(), bias.data(), y.data(), n, in, out);
    k.linear_backward(x.data(), w.data(), dy.data(), dx.data(), dw.data(), dbias.data(), n, in, out);
    return std::vector{y, dx, dw, dbias};
  });
}
