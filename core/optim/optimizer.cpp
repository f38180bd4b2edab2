// Optimizer: one fused pass over all parameters.
#include "core/optim/optimizer.h"

#include <cmath>

namespace copylab::optim {

Optimizer::Optimizer(nn::Parameters& parameters, const OptimizerOptions& options)
    : parameters_(parameters), options_(options) {
  expect(parameters.flat_data() != nullptr, "optimizer", "the parameters are not allocated");
  std::vector<int64_t> ends;
  const auto& entries = parameters.entries();
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i - 1].decay != entries[i].decay) ends.push_back(entries[i].offset);
  ends.push_back(parameters.flat_size());
  const Backend& backend = parameters.backend();
  range_ends_ = backend.allocate(sizeof(int64_t) * ends.size());
  backend.copy_in(range_ends_, ends.data(), sizeof(int64_t) * ends.size());
  ranges_ = {static_cast<const int64_t*>(range_ends_), static_cast<int64_t>(ends.size()),
             entries.front().decay};
  if (options_.kind == OptimizerOptions::Kind::adamw) {
    const size_t bytes = size_of(parameters.dtype()) * parameters.flat_size();
    for (void** buffer : {&m_, &v_}) {
      *buffer = parameters.backend().allocate(bytes);
      parameters.backend().fill_zero(*buffer, bytes);
    }
  }
}

Optimizer::~Optimizer() {
  for (void* buffer : {range_ends_, m_, v_})
    if (buffer) parameters_.backend().release(buffer);
}

void Optimizer::step(double lr, double grad_scale) {
  ++updates_;
  dispatch_float(parameters_.dtype(), "optimizer", [&](auto tag) {
    using T = decltype(tag);
    const auto& k = parameters_.backend().kernels<T>();
    T* param = static_cast<T*>(parameters_.flat_data());
    T* grad = static_cast<T*>(parameters_.flat_grad());
    if (options_.kind == OptimizerOptions::Kind::sgd)
      return k.sgd(param, grad, parameters_.flat_size(), static_cast<T>(lr),
                   static_cast<T>(options_.weight_decay), static_cast<T>(grad_scale), true, ranges_);
    AdamWArgs<T> args{};
    args.n = parameters_.flat_size();
    args.param = param;
    args.grad = grad;
    args.m = static_cast<T*>(m_);
    args.v = static_cast<T*>(v_);
    args.lr = static_cast<T>(lr);
    args.beta1 = static_cast<T>(options_.beta1);
    args.beta2 = static_cast<T>(options_.beta2);
    args.eps = static_cast<T>(options_.eps);
    args.weight_decay = static_cast<T>(options_.weight_decay);
    args.bias1 = static_cast<T>(1.0 - std::pow(options_.beta1, static_cast<double>(updates_)));
    args.bias2 = static_cast<T>(1.0 - std::pow(options_.beta2, static_cast<double>(updates_)));
    args.grad_scale = static_cast<T>(grad_scale);
    args.zero_grad = true;
    args.ranges = ranges_;
    k.adamw(args);
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
