// UTF-8, one character at a time, strictly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace copylab::text {

struct Utf8 {
  bool valid;
  size_t size;    // bytes of the character; 1 if it is not valid
  uint32_t code;  // code point
};

// The character that a non-empty text starts with. Overlong forms, surrogates and code points above U+10FFFF
// are not valid.
inline Utf8 decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {true, 1, lead};
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  const Utf8 invalid{false, 1, 0};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return invalid;
  uint32_t code = lead & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return invalid;
    code = code << 6 | (byte(i) & 0x3F);
  }
  const uint32_t smallest = size == 4 ? 0x10000 : size == 3 ? 0x800 : 0x80;
  if (code < smallest || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return invalid;
  return {true, size, code};
}

}  // namespace copylab::text
