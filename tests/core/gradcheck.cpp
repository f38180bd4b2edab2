// Gradient-check harness: finite differences, guard values and the comparisons between runs.
#include "tests/core/gradcheck.h"

#include <cmath>

namespace copylab::test {
namespace {

constexpr uint8_t kPaint = 0xA5;

int64_t padding(int64_t bytes) {
  constexpr int64_t kAlignment = Arena::kAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment - bytes;
}

// Fills the arena's block, so that a write behind an array of the next step shows in its padding.
void paint(Tape& tape, const Tape::Options& options) {
  constexpr int64_t kBytes = 1 << 20;
  tape.begin(options);
  Tensor all = tape.scratch(DType::u8, {kBytes});
  std::memset(all.data<uint8_t>(), kPaint, kBytes);
  tape.begin(options);
}

bool painted(const void* array, int64_t bytes) {
  const auto* p = static_cast<const uint8_t*>(array) + bytes;
  for (int64_t i = 0; i < padding(bytes); ++i)
    if (p[i] != kPaint) return false;
  return true;
}

// loss + sum of y · weight over finite y; the op that a check differentiates through.
template <class T>
Tensor add_weighted(Tape& tape, const Tensor& loss, const Tensor& y, const std::vector<T>& weights) {
  Tensor total = tape.result(y.dtype(), {1}, {loss, y});
  T sum = loss ? loss.data<T>()[0] : T(0);
  for (int64_t i = 0; i < y.size(); ++i)
    if (y.data<T>()[i] != -INFINITY) sum += weights[i] * y.data<T>()[i];
  total.data<T>()[0] = sum;
  tape.record("add_weighted", {total}, {loss, y}, [=] {
    const T d = total.grad<T>()[0];
    if (T* dloss = loss.grad_or_null<T>()) dloss[0] += d;
    if (T* dy = y.grad_or_null<T>())
      for (int64_t i = 0; i < y.size(); ++i) dy[i] += weights[i] * d;
  });
  return total;
}

std::string at(const char* what, size_t index, const Shape& shape, int64_t element) {
  return fmt::format("{} {} {} element {}", what, index, shape.str(), element);
}

}  // namespace

Input random_input(Shape shape, std::string_view purpose, double scale, double shift) {
  Input input{shape, std::vector<double>(shape.size())};
  const Random random(1, purpose);
  for (int64_t i = 0; i < shape.size(); ++i) input.values[i] = shift + scale * random.normal(i);
  return input;
}

Input uniform_input(Shape shape, std::string_view purpose, double low, double high) {
  Input input{shape, std::vector<double>(shape.size())};
  const Random random(1, purpose);
  for (int64_t i = 0; i < shape.size(); ++i) input.values[i] = low + (high - low) * random.uniform(i);
  return input;
}

std::vector<int32_t> random_ids(int64_t n, std::string_view purpose, int32_t low, int32_t high) {
  const Random random(1, purpose);
  std::vector<int32_t> ids(n);
  for (int64_t i = 0; i < n; ++i) ids[i] = low + static_cast<int32_t>(random.below(i, high - low));
  return ids;
}

template <class T>
OpResult run_op(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options, bool backward) {
  OpResult result;
  std::vector<Guarded<T>> values, gradients;
  std::vector<std::vector<T>> starts;
  for (const Input& input : inputs) {
    values.emplace_back(std::vector<T>(input.values.begin(), input.values.end()));
    const Input start = random_input(input.shape, "initial gradient " + std::to_string(starts.size()));
    starts.emplace_back(start.values.begin(), start.values.end());
    gradients.emplace_back(starts.back());
  }
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i)
    tensors.push_back(Tensor::view(values[i].data(), dtype_of<T>(), inputs[i].shape,
                                   backward && inputs[i].requires_grad ? gradients[i].data() : nullptr));

  Tape tape(cpu_backend());
  Tape::Options tape_options;
  tape_options.record = backward;
  tape_options.training = options.training;
  tape_options.seed = options.seed;
  paint(tape, tape_options);
  const std::vector<Tensor> outputs = op(tape, tensors);
  Tensor loss;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Tensor& y = outputs[o];
    if (!painted(y.data<T>(), y.size() * sizeof(T))) result.overruns.push_back(fmt::format("output {}", o));
    const Input weights = random_input(y.shape(), "upstream " + std::to_string(o));
    result.outputs.emplace_back(y.data<T>(), y.data<T>() + y.size());
    loss = add_weighted<T>(tape, loss, y, std::vector<T>(weights.values.begin(), weights.values.end()));
  }
  result.loss = loss.data<T>()[0];
  if (backward) tape.backward(loss);

  for (size_t i = 0; i < inputs.size(); ++i) {
    result.gradients.emplace_back();
    if (backward && inputs[i].requires_grad)
      for (int64_t j = 0; j < inputs[i].shape.size(); ++j)
        result.gradients[i].push_back(double(gradients[i].data()[j]) - double(starts[i][j]));
    if (!values[i].intact()) result.overruns.push_back(fmt::format("input {}", i));
    if (!gradients[i].intact()) result.overruns.push_back(fmt::format("gradient of input {}", i));
  }
  return result;
}
template OpResult run_op<float>(const Op&, const std::vector<Input>&, const CheckOptions&, bool);
template OpResult run_op<double>(const Op&, const std::vector<Input>&, const CheckOptions&, bool);

std::string gradient_error(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options) {
  const OpResult all = run_op<double>(op, inputs, options);
  if (!all.overruns.empty()) return "written behind " + all.overruns[0];

  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad) continue;
    std::vector<Input> alone = inputs;
    for (size_t j = 0; j < inputs.size(); ++j) alone[j].requires_grad = j == i;
    const OpResult one = run_op<double>(op, alone, options);
    for (int64_t e = 0; e < inputs[i].shape.size(); ++e)
      if (one.gradients[i][e] != all.gradients[i][e])
        return fmt::format("{}: {} when asked for alone, {} with all", at("input", i, inputs[i].shape, e),
                           one.gradients[i][e], all.gradients[i][e]);

    for (int64_t e = 0; e < inputs[i].shape.size(); ++e) {
      const auto moved = [&](double by) {
        std::vector<Input> x = inputs;
        x[i].values[e] += by;
        return run_op<double>(op, x, options, false).loss;
      };
      const double h = options.step;
      const double numeric = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
      const double analytic = all.gradients[i][e];
      if (!(std::abs(analytic - numeric) <= options.tolerance * (1 + std::abs(numeric))))
        return fmt::format("{}: gradient {}, by differences {}", at("input", i, inputs[i].shape, e), analytic,
                           numeric);
    }
  }
  return "";
}

std::string float32_error(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options) {
  std::vector<Input> rounded = inputs;  // the same numbers for both types
  for (Input& input : rounded)
    for (double& v : input.values) v = static_cast<float>(v);
  const OpResult narrow = run_op<float>(op, rounded, options), wide = run_op<double>(op, rounded, options);
  if (!narrow.overruns.empty()) return "float32: written behind " + narrow.overruns[0];
  const auto compare = [&](const char* what, const auto& a, const auto& b) -> std::string {
    for (size_t i = 0; i < b.size(); ++i) {
      double largest = 0;
      for (double v : b[i])
        if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
      for (size_t e = 0; e < b[i].size(); ++e)
        if (a[i][e] != b[i][e] && !(std::abs(a[i][e] - b[i][e]) <= options.float_tolerance * (1 + largest)))
          return fmt::format("{} {} element {}: float32 {}, float64 {}", what, i, e, a[i][e], b[i][e]);
    }
    return "";
  };
  const std::string forward = compare("output", narrow.outputs, wide.outputs);
  return forward.empty() ? compare("gradient of input", narrow.gradients, wide.gradients) : forward;
}

std::string thread_error(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options) {
  const bool same = same_bits_for_threads([&] {
    const OpResult result = run_op<float>(op, inputs, options);
    std::vector<double> all;
    for (const auto& part : {result.outputs, result.gradients})
      for (const std::vector<double>& values : part) all.insert(all.end(), values.begin(), values.end());
    return all;
  });
  return same ? "" : "the bits depend on the number of threads";
}

void check_op(const Op& op, const std::vector<Input>& inputs, const CheckOptions& options) {
  CHECK(gradient_error(op, inputs, options) == "");
  CHECK(float32_error(op, inputs, options) == "");
  CHECK(thread_error(op, inputs, options) == "");
}

}  // namespace copylab::test
