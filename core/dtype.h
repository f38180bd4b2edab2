// DType: the element types of tensors, and dispatch from the run-time tag to the C++ type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace copylab {

enum class DType : uint8_t { f32, f64, i32, u8 };

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}

constexpr size_t size_of(DType t) {
  return t == DType::f64 ? 8 : t == DType::u8 ? 1 : 4;
}
constexpr const char* name_of(DType t) {
  return t == DType::f32 ? "float32" : t == DType::f64 ? "float64" : t == DType::i32 ? "int32" : "uint8";
}
constexpr bool is_float(DType t) {
  return t == DType::f32 || t == DType::f64;
}

// Calls f(float{}) or f(double{}); anything else is an error of op `where`.
template <class F>
void dispatch_float(DType dtype, const char* where, F&& f) {
  expect(is_float(dtype), where, "float32 or float64 expected: got {}", name_of(dtype));
  if (dtype == DType::f32)
    f(float{});
  else
    f(double{});
}

}  // namespace copylab
