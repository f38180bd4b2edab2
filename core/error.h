// The error types that every layer throws, and the one-line form of a failed expectation.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace copylab {

// A broken expectation of an op or of a core object; the message is "[where] what".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// NaN or Inf in a loss, an activation or a gradient. `op` names the op that produced it.
class NonFiniteError : public Error {
 public:
  NonFiniteError(std::string op, const std::string& what) : Error(what), op_(std::move(op)) {}
  const std::string& op() const { return op_; }

 private:
  std::string op_;
};

// expect(ok, "matmul", "inner sizes must agree: got {}, {}", a, b) throws "[matmul] inner sizes …".
template <class... Args>
void expect(bool ok, const char* where, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) throw Error("[" + std::string(where) + "] " + fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace copylab
