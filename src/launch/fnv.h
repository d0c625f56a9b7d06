#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace gputrain {

// FNV-1a, 64 bits, as 16 hex digits: tells apart the few things one user has; no protection against intent.
inline std::string fnv_hex(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char digits[24];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

}  // namespace gputrain
