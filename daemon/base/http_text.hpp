#pragma once

#include <string_view>

namespace driftgate::base {

// The grammar that every head of HTTP/1.1 shares. Which heads are accepted is for their readers to say: the
// API's (daemon/net/request) and the router's (daemon/route/http/http_head), which are both stricter than RFC
// 9112.

/// True when both are equal but for ASCII case.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);

/// A token of RFC 9110, section 5.6.2: a method or a header's name. False for "".
[[nodiscard]] bool is_token(std::string_view text);

/// Without the blanks and tabs around it (OWS of RFC 9110, section 5.6.3).
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// True when `word` is an element of a comma-separated list, whatever its case.
[[nodiscard]] bool list_has(std::string_view list, std::string_view word);

}  // namespace driftgate::base
