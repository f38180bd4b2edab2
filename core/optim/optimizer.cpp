// Optimizer: one fused pass over each range of parameters.
#include "core/optim/optimizer.h"

#include <cmath>

namespace copylab::optim {

Optimizer::Optimizer(nn::Parameters& parameters, const OptimizerOptions& options)
    : parameters_(parameters), options_(options) {
  expect(parameters.flat_data() != nullptr, "optimizer", "the parameters are not allocated");
  for (const auto& entry : parameters.entries()) {
    if (ranges_.empty() || ranges_.back().decay != entry.decay)
      ranges_.push_back({entry.offset, entry.offset, entry.decay});
    ranges_.back().end = entry.offset + entry.shape.size();
  }
  if (options_.kind == OptimizerOptions::Kind::adamw) {
    const size_t bytes = size_of(parameters.dtype()) * parameters.flat_size();
    for (void** buffer : {&m_, &v_}) {
      *buffer = parameters.backend().allocate(bytes);
      parameters.backend().fill_zero(*buffer, bytes);
    }
  }
}

Optimizer::~Optimizer() {
  for (void* buffer : {m_, v_})
    if (buffer) parameters_.backend().release(buffer);
}

void Optimizer::step(double lr, double grad_scale) {
  ++updates_;
  dispatch_float(parameters_.dtype(), "optimizer", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = parameters_.backend().kernels<T>();
    T* param = static_cast<T*>(parameters_.flat_data());
    T* grad = static_cast<T*>(parameters_.flat_grad());
    for (const Range& r : ranges_) {
      const T decay = static_cast<T>(r.decay ? options_.weight_decay : 0.0);
      if (options_.kind == OptimizerOptions::Kind::sgd) {
        k.sgd(param + r.begin, grad + r.begin, r.end - r.begin, static_cast<T>(lr), decay,
              static_cast<T>(grad_scale), true);
        continue;
      }
      AdamWArgs<T> args{};
      args.n = r.end - r.begin;
      args.param = param + r.begin;
      args.grad = grad + r.begin;
      args.m = static_cast<T*>(m_) + r.begin;
      args.v = static_cast<T*>(v_) + r.begin;
      args.lr = static_cast<T>(lr);
      args.beta1 = static_cast<T>(options_.beta1);
      args.beta2 = static_cast<T>(options_.beta2);
      args.eps = static_cast<T>(options_.eps);
      args.weight_decay = decay;
      args.bias1 = static_cast<T>(1.0 - std::pow(options_.beta1, static_cast<double>(updates_)));
      args.bias2 = static_cast<T>(1.0 - std::pow(options_.beta2, static_cast<double>(updates_)));
      args.grad_scale = static_cast<T>(grad_scale);
      args.zero_grad = true;
      k.adamw(args);
    }
  });
}

std::vector<Optimizer::State> Optimizer::state() const {
  std::vector<State> out;
  if (options_.kind == OptimizerOptions::Kind::sgd) return out;
  const size_t width = size_of(parameters_.dtype());
  const std::pair<const char*, void*> buffers[] = {{"m.", m_}, {"v.", v_}};
  for (const auto& [prefix, buffer] : buffers)
    for (const auto& entry : parameters_.entries())
      out.push_back({prefix + entry.name, Tensor::view(static_cast<std::byte*>(buffer) + width * entry.offset,
                                                       parameters_.dtype(), entry.shape)});
  return out;
}

int64_t Optimizer::state_bytes(OptimizerOptions::Kind kind, int64_t flat_size, DType dtype) {
  return kind == OptimizerOptions::Kind::adamw ? 2 * flat_size * static_cast<int64_t>(size_of(dtype)) : 0;
}

double gradient_norm(const nn::Parameters& parameters) {
  double sum = 0;
  dispatch_float(parameters.dtype(), "gradient_norm", [&](auto tag) {
    using T = decltype(tag);
    sum = parameters.backend().kernels<T>().sum_of_squares(static_cast<const T*>(parameters.flat_grad()),
                                                           parameters.flat_size());
  });
  return std::sqrt(sum);
}

double clip_scale(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace copylab::optim
