#include "daemon/net/request.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "daemon/base/ascii.hpp"
#include "daemon/base/authority.hpp"
#include "daemon/base/http_text.hpp"
#include "daemon/limits/header_names.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::net {
namespace {

using schema::ErrorCode;
using schema::fail;
using schema::Result;

constexpr std::size_t kMaxMethodBytes = 16;
constexpr std::size_t kMaxQueryPairs = 50;

std::unexpected<schema::Error> refuse(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

/// Takes one line ended by CRLF off `bytes`; a bare CR or LF in it is refused.
Result<std::string_view> take_line(std::string_view& bytes) {
  const std::size_t end = bytes.find("\r\n");
  if (end == std::string_view::npos) return refuse("the request head does not end with an empty line");
  const std::string_view line = bytes.substr(0, end);
  if (line.find_first_of("\r\n") != std::string_view::npos)
    return refuse("a line of the request head contains a bare CR or LF");
  bytes.remove_prefix(end + 2);
  return line;
}

Result<void> parse_query(std::string_view text, RequestHead& head) {
  while (!text.empty()) {
    const std::size_t amp = text.find('&');
    const std::string_view item = text.substr(0, amp);
    text = amp == std::string_view::npos ? std::string_view{} : text.substr(amp + 1);
    if (item.empty()) continue;
    if (head.query.size() == kMaxQueryPairs)
      return refuse(fmt::format("the query has more than {} parameters", kMaxQueryPairs));
    const std::size_t equals = item.find('=');
    auto name = TRY(percent_decode(item.substr(0, equals), true));
    auto value = TRY(percent_decode(equals == std::string_view::npos ? "" : item.substr(equals + 1), true));
    head.query.emplace_back(std::move(name), std::move(value));
  }
  return {};
}

Result<void> parse_request_line(std::string_view line, RequestHead& head) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return refuse("the request line is not 'METHOD target HTTP/1.1'");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (method.empty() || method.size() > kMaxMethodBytes || !std::ranges::all_of(method, base::is_upper))
    return refuse("the request method must consist of capital letters");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return refuse("only HTTP/1.1 and HTTP/1.0 are supported");
  if (!target.starts_with('/'))
    return refuse("the request target must be a path: absolute form is not accepted");
  for (const char c : target)
    if (c <= ' ' || c >= 0x7f || c == '#' || c == '\\')
      return refuse("the request target contains a character that must be percent-encoded");
  head.method = method;
  head.minor_version = version.back() - '0';
  head.keep_alive = head.minor_version == 1;
  const std::size_t question = target.find('?');
  head.path = target.substr(0, question);
  return question == std::string_view::npos ? Result<void>{} : parse_query(target.substr(question + 1), head);
}

Result<void> parse_field(std::string_view line, RequestHead& head) {
  if (line.front() == ' ' || line.front() == '\t') return refuse("folded header lines are not accepted");
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return refuse("a header line has no name or no colon");
  const std::string_view name = line.substr(0, colon);
  if (!base::is_token(name)) return refuse("a header name contains a forbidden character");
  if (const auto read_as = limits::disguised_header(name))
    return refuse(fmt::format("a header name could be read as '{}': spell it with dashes", *read_as));
  const std::string_view value = base::trimmed(line.substr(colon + 1));
  if (std::ranges::any_of(value, is_control)) return refuse("a header value contains a control character");
  if (head.headers.size() == kMaxHeaderFields)
    return refuse(fmt::format("more than {} headers", kMaxHeaderFields));
  head.headers.push_back({std::string(name), std::string(value)});
  return {};
}

Result<void> parse_length(std::string_view value, RequestHead& head) {
  constexpr std::size_t kMaxDigits = 18;
  if (value.empty() || value.size() > kMaxDigits || !std::ranges::all_of(value, base::is_digit))
    return refuse("Content-Length must be one decimal number");
  std::from_chars(value.data(), value.data() + value.size(), head.content_length);
  return {};
}

Result<void> interpret_fields(RequestHead& head) {
  int hosts = 0;
  int lengths = 0;
  int credentials = 0;
  for (const Header& header : head.headers) {
    if (base::equal_ignoring_case(header.name, "host")) {
      ++hosts;
      if (!base::is_host(header.value))
        return refuse("the Host header is not a host, with or without a port");
    } else if (base::equal_ignoring_case(header.name, "content-length")) {
      ++lengths;
      TRY(parse_length(header.value, head));
    } else if (base::equal_ignoring_case(header.name, "transfer-encoding")) {
      return refuse("Transfer-Encoding is not accepted: send the body with Content-Length");
    } else if (base::equal_ignoring_case(header.name, "authorization")) {
      ++credentials;
    } else if (base::equal_ignoring_case(header.name, "connection")) {
      if (base::list_has(header.value, "close")) head.keep_alive = false;
    } else if (base::equal_ignoring_case(header.name, "expect")) {
      if (!base::equal_ignoring_case(header.value, "100-continue"))
        return refuse("only 'Expect: 100-continue' is supported");
      head.expects_continue = head.minor_version == 1;
    }
  }
  if (hosts > 1 || (hosts == 0 && head.minor_version == 1))
    return refuse("exactly one Host header is required");
  if (lengths > 1) return refuse("more than one Content-Length header");
  if (credentials > 1) return refuse("more than one Authorization header");
  return {};
}

}  // namespace

std::optional<std::string_view> RequestHead::query_value(std::string_view name) const {
  for (const auto& [key, value] : query)
    if (key == name) return value;
  return std::nullopt;
}

Result<RequestHead> parse_request_head(std::string_view bytes) {
  RequestHead head;
  const auto request_line = TRY(take_line(bytes));
  TRY(parse_request_line(request_line, head));
  for (;;) {
    const auto line = TRY(take_line(bytes));
    if (line.empty()) break;
    TRY(parse_field(line, head));
  }
  if (!bytes.empty()) return refuse("unexpected bytes after the request head");
  TRY(interpret_fields(head));
  return head;
}

}  // namespace driftgate::net
