// ConfigError: the user's configuration or command line is wrong; the program ends with exit code 2.
#pragma once

#include "core/error.h"

namespace copylab {

// The message is one line: where, which key, what was expected, the nearest valid name.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// expect_config(n > 0, "{}: a positive length expected: got {}", key, n) throws ConfigError.
template <class... Args>
void expect_config(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) throw ConfigError(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace copylab
