// rope: y = x·cos + rotate_half(x)·sin per head; the gradient turns back by the same angle.
#include "core/ops/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace copylab::ops {

std::pair<double, double> yarn_range(int64_t head_dim, double theta, const Yarn& yarn) {
  // The index of the frequency that makes `turns` turns within the original length.
  const auto index = [&](double turns) {
    return head_dim * std::log(yarn.original_length / (2 * std::numbers::pi * turns)) / (2 * std::log(theta));
  };
  const double last = head_dim - 1.0;
  return {std::clamp(std::floor(index(yarn.beta_fast)), 0.0, last),
          std::clamp(std::ceil(index(yarn.beta_slow)), 0.0, last)};
}

double yarn_mscale(double scale) {
  return scale <= 1.0 ? 1.0 : 0.1 * std::log(scale) + 1.0;
}

std::vector<double> rope_frequencies(int64_t head_dim, double theta, const std::optional<Yarn>& yarn) {
  expect(head_dim > 0 && head_dim % 2 == 0, "rope", "an even head dimension expected: got {}", head_dim);
  expect(theta > 1.0, "rope", "a base above 1 expected: got {}", theta);
  std::vector<double> frequencies(head_dim / 2);
  for (int64_t i = 0; i < head_dim / 2; ++i) frequencies[i] = std::pow(theta, -2.0 * i / head_dim);
  if (!yarn) return frequencies;

  expect(yarn->scale > 0 && yarn->original_length > 0, "rope",
         "a YaRN scale and original length above 0 expected: got {}, {}", yarn->scale, yarn->original_length);
  const auto [low, high] = yarn_range(head_dim, theta, *yarn);
  const double width = high > low ? high - low : 1e-3;  // a ramp of no width is a step
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double ramp = std::clamp((i - low) / width, 0.0, 1.0);
    const double keep = (1.0 - ramp) * yarn->extrapolation_factor;
    frequencies[i] *= (1.0 - keep) / yarn->scale + keep;
  }
  return frequencies;
}

RopeTable::RopeTable(const Backend& backend, DType dtype, int64_t head_dim, double theta, int64_t positions,
                     const std::optional<Yarn>& yarn)
    : backend_(backend) {
  const std::vector<double> frequencies = rope_frequencies(head_dim, theta, yarn);
  const double factor = yarn ? yarn_mscale(yarn->scale) * yarn->attn_factor : 1.0;
  const int64_t half = head_dim / 2, n = positions * half;
  dispatch_float(dtype, "rope", [&](auto tag) {
    using T = decltype(tag);
    std::vector<T> host(2 * n);
    for (int64_t p = 0; p < positions; ++p)
      for (int64_t i = 0; i < half; ++i) {
        host[p * half + i] = static_cast<T>(factor * std::cos(p * frequencies[i]));
        host[n + p * half + i] = static_cast<T>(factor * std::sin(p * frequencies[i]));
      }
    data_ = backend.allocate(sizeof(T) * host.size());
    backend.copy_in(data_, host.data(), sizeof(T) * host.size());
    cos_ = Tensor::view(data_, dtype, {positions, half}, nullptr, "rope.cos");
    sin_ = Tensor::view(static_cast<T*>(data_) + n, dtype, {positions, half}, nullptr, "rope.sin");
  });
}

RopeTable::~RopeTable() {
  backend_.release(data_);
}

Tensor rope(Tape& tape, const Tensor& x, const RopeTable& table, const Tensor& positions) {
  const Tensor cos = table.cos(), sin = table.sin();
  expect(x.shape().rank() >= 3 && x.dim(-1) == 2 * cos.dim(1), "rope", "x (…, H, {}) expected: got {}",
         2 * cos.dim(1), x.shape().str());
  const int64_t heads = x.dim(-2), head_dim = x.dim(-1),
                n = x.size() / std::max<int64_t>(1, heads * head_dim);
  expect(positions.size() == n, "rope", "one position for each row of {} expected: got {}", x.shape().str(),
         positions.shape().str());
  Tensor y = tape.result(x.dtype(), x.shape(), {x});
  dispatch_float(x.dtype(), "rope", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = tape.backend().kernels<T>();
    const int64_t rows = cos.dim(0);
    k.rope(x.data<T>(), cos.data<T>(), sin.data<T>(), positions.data<int32_t>(), y.data<T>(), n, heads,
           head_dim, rows, +1, false);
    tape.record("rope", {y}, {x}, [=, &k] {
      k.rope(y.grad<T>(), cos.data<T>(), sin.data<T>(), positions.data<int32_t>(), x.grad<T>(), n, heads,
             head_dim, rows, -1, true);
    });
  });
  return y;
}

}  // namespace copylab::ops
