// Parameters: all weights of a model by dotted name, in one flat buffer, with their gradients in another.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "core/tape.h"

namespace copylab::nn {

// How a weight starts. Values are drawn from Philox keyed by (seed, name), so that adding a parameter does
// not change any other.
struct Init {
  enum class Kind { constant, normal, uniform } kind = Kind::constant;
  double scale = 0.0;  // constant: the value; normal: standard deviation; uniform: half width
  static Init constant(double value) { return {Kind::constant, value}; }
  static Init normal(double std) { return {Kind::normal, std}; }
  static Init uniform(double half_width) { return {Kind::uniform, half_width}; }
};

// Declared first (add), then allocated at once. Tensors returned by add are defined after allocate().
class Parameters {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    Init init;
    bool decay;      // weight decay applies
    int64_t offset;  // in elements, into the flat buffers; every parameter starts on 64 bytes
    Tensor tensor;
  };

  Parameters(const Backend& backend, DType dtype) : backend_(backend), dtype_(dtype) {}
  ~Parameters();
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  // The reference stays valid for the life of this object.
  const Tensor& add(std::string name, Shape shape, Init init, bool decay);
  void allocate();
  void initialise(uint64_t seed);

  const std::deque<Entry>& entries() const { return entries_; }
  const Entry& find(const std::string& name) const;  // throws Error if there is none
  bool has(const std::string& name) const { return places_.count(name) != 0; }
  int64_t count() const;                            // trained numbers
  int64_t flat_size() const { return flat_size_; }  // with padding between parameters (kept at zero)
  DType dtype() const { return dtype_; }
  const Backend& backend() const { return backend_; }
  void* flat_data() const { return data_; }
  void* flat_grad() const { return grad_; }
  void zero_grad();

 private:
  const Backend& backend_;
  DType dtype_;
  std::deque<Entry> entries_;
  std::unordered_map<std::string, size_t> places_;  // in entries_, by name
  int64_t flat_size_ = 0;
  void* data_ = nullptr;
  void* grad_ = nullptr;
};

}  // namespace copylab::nn
