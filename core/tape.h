// Tape: the record of one forward pass, and reverse-mode differentiation over it.
#pragma once

#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/backend.h"
#include "core/random.h"
#include "core/tensor.h"

namespace copylab {

// Collects activations by dotted name ("blocks.2.attn.probs") while a forward pass runs. An op or module
// computes what only a probe wants (attention probabilities) when wants(name) says so, and not otherwise.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual bool wants(const std::string& name) const = 0;
  virtual void take(const std::string& name, const Tensor& value) = 0;
};

// An op is a function of a tape: it checks shapes, runs a kernel of the tape's backend into tape.result(...),
// and records a closure that adds to the gradients of its inputs.
class Tape {
 public:
  struct Options {
    bool record = true;    // false: evaluation, no gradients
    bool training = true;  // dropout and its kind are active
    bool check_finite =
        false;          // examine every op's output and gradients; throws NonFiniteError naming the op
    uint64_t seed = 0;  // random streams of ops are keyed by (seed, purpose, step, index)
    uint64_t step = 0;
    Probe* probe = nullptr;
    bool read_later = false;  // when_computed() waits for finish_reads()
  };

  explicit Tape(const Backend& backend) : backend_(backend), arena_(backend) {}

  // Starts a new step: drops all activations of the last one.
  void begin(const Options& options);

  const Backend& backend() const { return backend_; }
  const Options& options() const { return options_; }
  Arena& arena() { return arena_; }

  // Uninitialised array for the result of an op; asks for gradients if recording and any input does.
  Tensor result(DType dtype, Shape shape, std::initializer_list<Tensor> inputs);
  // Uninitialised array outside of differentiation: saved statistics, masks, ids.
  Tensor scratch(DType dtype, Shape shape) { return Tensor::in_arena(arena_, dtype, shape); }
  // A copy of host data, no gradient, that stays as it is: to_host() of ids and flags asks no backend.
  template <class T>
  Tensor constant(const T* host, Shape shape) {
    Tensor t = scratch(dtype_of<T>(), shape);
    const size_t bytes = sizeof(T) * shape.size();
    backend_.copy_in(t.data<T>(), host, bytes);
    if (std::is_integral_v<T> && bytes > 0) {
      std::shared_ptr<std::byte[]> copy(new std::byte[bytes]);
      std::memcpy(copy.get(), host, bytes);
      t.keep_host_copy(std::move(copy));
    }
    return t;
  }
  template <class T>
  Tensor constant(const std::vector<T>& host, Shape shape) {
    expect(static_cast<int64_t>(host.size()) == shape.size(), "constant", "{} values for shape {}",
           host.size(), shape.str());
    return constant(host.data(), shape);
  }

  // Records an op. `backward` runs in backward() if a gradient has reached any of `outputs`; it must add to
  // inputs' gradients. `op` is a string literal: it names the op in errors.
  void record(const char* op, std::initializer_list<Tensor> outputs, std::initializer_list<Tensor> inputs,
              std::function<void()> backward);

  // Gradients of `loss` (one number) with respect to everything on the tape that asks for them, times `seed`.
  void backward(const Tensor& loss, double seed = 1.0);

  // Calls `read`, which takes to the host what this step computes: now, or, with read_later, in
  // finish_reads().
  void when_computed(std::function<void()> read);
  void finish_reads();

  // A random stream of its own for the k-th draw of this purpose in this step.
  Random random(const char* purpose);

  void probe(const std::string& name, const Tensor& value) {
    if (options_.probe && options_.probe->wants(name)) options_.probe->take(name, value);
  }
  bool probing(const std::string& name) const { return options_.probe && options_.probe->wants(name); }

 private:
  struct Record {
    const char* op;
    std::vector<Tensor> outputs, inputs;
    std::function<void()> backward;
  };
  void check(const char* op, const Tensor& t, bool gradient) const;

  const Backend& backend_;
  Arena arena_;
  Options options_;
  std::vector<Record> records_;
  std::vector<std::function<void()>> reads_;
  std::map<std::string, uint64_t> draws_;  // streams handed out in this step, by purpose
};

// Host copy of a tensor.
template <class T>
std::vector<T> to_host(const Backend& backend, const Tensor& t) {
  std::vector<T> out(t.size());
  const T* data = t.data<T>();
  if (out.empty()) return out;
  if (t.host_copy())
    std::memcpy(out.data(), t.host_copy(), sizeof(T) * out.size());
  else
    backend.copy_out(out.data(), data, sizeof(T) * out.size());
  return out;
}

}  // namespace copylab
