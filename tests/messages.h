// What a test says about errors and other texts.
#pragma once

#include <functional>
#include <string>

#include "core/error.h"

namespace copylab::testing {

inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace copylab::testing
