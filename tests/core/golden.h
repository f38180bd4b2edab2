// Golden values: reads the cases that tests/golden/make_golden.py wrote and holds our results against them.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/io/hdf5.h"
#include "core/tape.h"
#include "tests/catch.h"

namespace copylab::test {

// The backend that golden values are compared on: the CPU, or what COPYLAB_TEST_BACKEND names ("cuda").
const Backend& golden_backend();

// Opens tests/golden/<name>; a file of another kind or version is an error.
h5::File open_golden(const std::string& name);

// Numbers of any float type as doubles.
template <class T>
std::vector<double> widen(const T* data, int64_t n) {
  return std::vector<double>(data, data + n);
}

// "" if `got` is as near to PyTorch's float64 `expected` as it must be, else one line with the first element
// that is not. In float64 that is 1e-10; in float32, the error that PyTorch's own float32 makes plus `slack`;
// both relative to the largest number, if that is above 1. Infinities must agree exactly.
template <class T>
std::string golden_error(const std::string& what, const std::vector<double>& got,
                         const std::vector<double>& expected, double torch_f32_error, double slack = 1e-6) {
  if (got.size() != expected.size())
    return fmt::format("{}: {} numbers, {} expected", what, got.size(), expected.size());
  double largest = 1;
  for (double x : expected)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  const bool exact = dtype_of<T>() == DType::f64;
  const double tolerance = exact ? 1e-10 * largest : torch_f32_error + slack * largest;
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != expected[i] && !(std::abs(got[i] - expected[i]) <= tolerance))
      return fmt::format("{} [{}] in {}: got {}, expected {}, tolerance {:.1e}", what, i,
                         name_of(dtype_of<T>()), got[i], expected[i], tolerance);
  return "";
}

// One case of ops.h5: hands out its inputs, compares outputs, and at the end all gradients. Gradients start
// from 1, so that a backward pass which overwrites instead of adding is found out.
template <class T>
class GoldenCase {
 public:
  GoldenCase(const h5::File& file, std::string name, double slack = 1e-6)
      : file_(file), name_(std::move(name)), slack_(slack), tape_(golden_backend()) {
    tape_.begin({});
  }
  ~GoldenCase() {
    for (const auto& [input, leaf] : leaves_) {
      backend().release(leaf.values);
      backend().release(leaf.grad);
    }
  }
  GoldenCase(const GoldenCase&) = delete;
  GoldenCase& operator=(const GoldenCase&) = delete;

  Tape& tape() { return tape_; }
  double real(const std::string& attribute) const { return file_.attribute_as<double>(name_, attribute); }
  int64_t integer(const std::string& attribute) const {
    return file_.attribute_as<int64_t>(name_, attribute);
  }
  bool has(const std::string& input) const { return file_.has(path("in.", input)); }

  // A float input; it asks for a gradient where PyTorch computed one. Undefined if the case lacks it.
  Tensor input(const std::string& input) {
    if (!has(input)) return {};
    const h5::Array<double> array = file_.read<double>(path("in.", input));
    Leaf& leaf = leaves_[input];
    leaf.values = on_backend(std::vector<T>(array.values.begin(), array.values.end()));
    leaf.grad = on_backend(std::vector<T>(array.values.size(), T(1)));
    const bool differentiated = file_.has(path("grad.", input));
    leaf.tensor = Tensor::view(leaf.values, dtype_of<T>(), shape_of(array.shape),
                               differentiated ? leaf.grad : nullptr, input);
    return leaf.tensor;
  }
  // An integer input: ids, masks. Undefined if the case lacks it.
  template <class I>
  Tensor constant(const std::string& input) {
    if (!has(input)) return {};
    const h5::Array<I> array = file_.read<I>(path("in.", input));
    return tape_.constant(array.values, shape_of(array.shape));
  }

  // Compares an output and notes the gradient that arrives at it, if one does.
  void output(const std::string& output, const Tensor& y) {
    compare(output, y);
    if (!file_.has(path("upstream.", output))) return;
    const std::vector<double> values = file_.read<double>(path("upstream.", output)).values;
    const Tensor upstream = tape_.constant(std::vector<T>(values.begin(), values.end()), y.shape());
    const Tensor one = tape_.constant(std::vector<T>{1}, {1});
    Tensor before = loss_;
    loss_ = tape_.result(dtype_of<T>(), {1}, {before, y});
    backend().fill_zero(loss_.template data<T>(), sizeof(T));  // only its gradient matters
    const auto& kernels = backend().template kernels<T>();
    tape_.record("upstream", {loss_}, {before, y}, [before, y, upstream, one, &kernels] {
      const auto add = [&](const Tensor& x, const Tensor& to) {
        kernels.affine(x.template data<T>(), T(1), T(0), to.template grad<T>(), x.size(), true);
      };
      if (before) add(one, before);
      add(upstream, y);
    });
  }
  // Compares without a gradient.
  void compare(const std::string& output, const Tensor& y) {
    CHECK(golden_error<T>(path("out.", output), host_copy<T>(y), expected("out.", output),
                          f32_error("out.", output), slack_) == "");
  }
  void compare_integers(const std::string& output, const Tensor& y) {
    CHECK(host_copy<int32_t>(y) == expected("out.", output));
  }

  // Runs backward and compares every gradient in the file.
  void finish() {
    tape_.backward(loss_);
    int compared = 0;
    for (const auto& [input, leaf] : leaves_) {
      if (!leaf.tensor.requires_grad()) continue;
      std::vector<T> grad(leaf.tensor.size());
      backend().copy_out(grad.data(), leaf.grad, sizeof(T) * grad.size());
      std::vector<double> added(grad.begin(), grad.end());
      for (double& g : added) g -= 1;
      CHECK(golden_error<T>(path("grad.", input), added, expected("grad.", input), f32_error("grad.", input),
                            slack_) == "");
      ++compared;
    }
    int in_file = 0;
    for (const std::string& member : file_.list(name_)) in_file += member.rfind("grad.", 0) == 0;
    CHECK(compared == in_file);
  }

 private:
  struct Leaf {
    void *values = nullptr, *grad = nullptr;
    Tensor tensor;
  };
  const Backend& backend() const { return tape_.backend(); }
  void* on_backend(const std::vector<T>& host) const {
    void* data = backend().allocate(sizeof(T) * host.size());
    backend().copy_in(data, host.data(), sizeof(T) * host.size());
    return data;
  }
  template <class X>
  std::vector<double> host_copy(const Tensor& t) const {
    const std::vector<X> host = to_host<X>(backend(), t);
    return std::vector<double>(host.begin(), host.end());
  }
  std::string path(const char* kind, const std::string& member) const { return name_ + "/" + kind + member; }
  std::vector<double> expected(const char* kind, const std::string& member) const {
    return file_.read<double>(path(kind, member)).values;
  }
  double f32_error(const char* kind, const std::string& member) const {
    // Another backend sums in another order, which is as good, and may be off on the other side.
    const double orders = &backend() == &cpu_backend() ? 1 : 2;
    return orders * file_.attribute_as<double>(path(kind, member), "f32_error");
  }
  static Shape shape_of(const h5::Extent& extent) {
    switch (extent.size()) {
      case 1:
        return {extent[0]};
      case 2:
        return {extent[0], extent[1]};
      case 3:
        return {extent[0], extent[1], extent[2]};
      default:
        return {extent.at(0), extent.at(1), extent.at(2), extent.at(3)};
    }
  }

  const h5::File& file_;
  std::string name_;
  double slack_;
  Tape tape_;
  std::map<std::string, Leaf> leaves_;
  Tensor loss_;
};

}  // namespace copylab::test
