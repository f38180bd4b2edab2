// ConfigError: the user's configuration or command line is wrong; the program ends with exit code 2.
#pragma once

#include "core/error.h"

namespace copylab {

// The message is one line: where, which key, what was expected, the nearest valid name.
class ConfigError : public Error {
 public:
  using Error::Error;
};

}  // namespace copylab
