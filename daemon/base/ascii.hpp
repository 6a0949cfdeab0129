#pragma once

#include <string_view>

namespace driftgate::base {

// Classes of characters, whatever the locale.

[[nodiscard]] constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
[[nodiscard]] constexpr bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
[[nodiscard]] constexpr char lower(char c) {
  return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
}
/// A letter, a digit or one of `others`.
[[nodiscard]] constexpr bool is_alphanumeric(char c, std::string_view others = {}) {
  return is_digit(c) || is_lower(c) || is_upper(c) || others.contains(c);
}

}  // namespace driftgate::base
