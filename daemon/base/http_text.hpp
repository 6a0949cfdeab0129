#pragma once

#include <cstddef>
#include <string_view>

#include "daemon/base/ascii.hpp"

namespace driftgate::base {

// The grammar that every head of HTTP/1.1 shares. Which heads are accepted is for their readers to say: the
// API's (daemon/net/request) and the router's (daemon/route/http/http_head), which are both stricter than RFC
// 9112.

/// True when both are equal but for ASCII case. Mostly the lengths differ, which is seen without a call.
[[nodiscard]] constexpr bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

/// A token of RFC 9110, section 5.6.2: a method or a header's name. False for "".
[[nodiscard]] bool is_token(std::string_view text);

/// Without the blanks and tabs around it (OWS of RFC 9110, section 5.6.3).
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// True when `word` is an element of a comma-separated list, whatever its case.
[[nodiscard]] bool list_has(std::string_view list, std::string_view word);

}  // namespace driftgate::base
