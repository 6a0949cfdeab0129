#include "daemon/net/request.hpp"
#include "daemon/net/url.hpp"
#include "daemon/route/http/http_head.hpp"
#include "tests/fuzz/unit.hpp"

/// A request's head, as the API reads it; the router may not read another length out of the same bytes.
void driftgate::fuzz::run(std::string_view bytes) {
  (void)net::parse_url(bytes);
  const auto head = net::parse_request_head(bytes);
  if (!head) return;
  require(head->path.starts_with('/'), "the path is in origin form");
  for (const auto& field : head->headers)
    require(
        field.value.find_first_of("\r\n") == std::string::npos && field.value.find('\0') == std::string::npos,
        "no value holds a line end or NUL");
  const auto other = route::parse_request_head(bytes);
  if (other && !other->chunked)
    require(other->content_length.value_or(0) == head->content_length, "both parsers see one length");
}
