#pragma once

#include <optional>
#include <string_view>

namespace driftgate::limits {

/// True for a header name of letters, digits and '-' alone. RFC 9110 allows more characters, but servers
/// that hand headers to programs as variables (CGI, WSGI) write each of them as '_', and so '-' too: there
/// `Content_Length` and `Content-Length` are one header. Other names are therefore not passed on.
[[nodiscard]] bool is_plain_header_name(std::string_view name);

/// The header that `name` would be taken for where only letters and digits count: "transfer-encoding" for
/// `Transfer_Encoding`, "host" for `Host_`. Nothing for plain names, and for those that resemble no header
/// that frames, routes or authorizes a request.
[[nodiscard]] std::optional<std::string_view> disguised_header(std::string_view name);

}  // namespace driftgate::limits
