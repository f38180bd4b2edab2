// Tape: recording of ops and the backward sweep.
#include "core/tape.h"

#include <algorithm>

namespace copylab {

void Tape::begin(const Options& options) {
  records_.clear();
  reads_.clear();
  draws_.clear();
  arena_.reset();
  options_ = options;
}

Tensor Tape::result(DType dtype, Shape shape, std::initializer_list<Tensor> inputs) {
  const bool wanted =
      options_.record && is_float(dtype) &&
      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.requires_grad(); });
  return Tensor::in_arena(arena_, dtype, shape, wanted);
}

void Tape::record(const char* op, std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
                  std::function<void()> backward) {
  if (options_.check_finite)
    for (const Tensor& t : outputs) check(op, t, false);
  const bool wanted =
      std::any_of(outputs.begin(), outputs.end(), [](const Tensor& t) { return t.requires_grad(); });
  if (wanted) records_.push_back({op, outputs, inputs, std::move(backward)});
}

void Tape::backward(const Tensor& loss, double seed) {
  expect(loss.size() == 1, "backward", "a loss of one number expected: got {}", loss.shape().str());
  expect(loss.requires_grad(), "backward", "the loss depends on nothing that asks for a gradient");
  dispatch_float(loss.dtype(), "backward", [&](auto tag) {
    using T = decltype(tag);
    T* grad = loss.grad<T>();  // zero; set by a kernel, since an upload is no part of a recorded step
    backend_.kernels<T>().affine(grad, T(0), static_cast<T>(seed), grad, 1, false);
  });
  for (auto it = records_.rbegin(); it != records_.rend(); ++it) {
    const bool reached = std::any_of(it->outputs.begin(), it->outputs.end(), [](const Tensor& t) {
      return t.defined() && t.requires_grad() && t.has_grad();
    });
    if (!reached) continue;
    it->backward();
    if (options_.check_finite)
      for (const Tensor& t : it->inputs) check(it->op, t, true);
  }
}

void Tape::when_computed(std::function<void()> read) {
  if (options_.read_later)
    reads_.push_back(std::move(read));
  else
    read();
}

void Tape::finish_reads() {
  for (const auto& read : reads_) read();
  reads_.clear();
}

Random Tape::random(const char* purpose) {
  const uint64_t draw = draws_[purpose]++;
  return Random(options_.seed, std::string(purpose) + "/" + std::to_string(draw), options_.step);
}

void Tape::check(const char* op, const Tensor& t, bool gradient) const {
  if (!t.defined() || !is_float(t.dtype()) || (gradient && (!t.requires_grad() || !t.has_grad()))) return;
  dispatch_float(t.dtype(), op, [&](auto tag) {
    using T = decltype(tag);
    const T* values = gradient ? t.grad<T>() : t.data<T>();
    if (!backend_.kernels<T>().all_finite(values, t.size(), !gradient))
      throw NonFiniteError(
          op, fmt::format("[{}] NaN or Inf in its {}{} {}", op, gradient ? "input gradient" : "output",
                          t.name().empty() ? "" : " " + t.name(), t.shape().str()));
  });
}

}  // namespace copylab
