#include "daemon/base/authority.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace driftgate::base {
namespace {

bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

bool is_address_char(char c) {
  return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' || c == '.';
}

}  // namespace

schema::Result<Authority> parse_authority(std::string_view text, std::string_view whole) {
  const auto refuse = [&](std::string_view what) {
    return schema::fail(schema::ErrorCode::invalid_argument, fmt::format("{} in '{}'", what, whole));
  };
  Authority found;
  std::string_view rest;  // a colon and the port, or nothing
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return refuse("no ']' after the IPv6 address");
    found.host = text.substr(1, close - 1);
    if (!std::ranges::all_of(found.host, is_address_char)) return refuse("bad IPv6 address");
    rest = text.substr(close + 1);
    if (!rest.empty() && !rest.starts_with(':')) return refuse("bytes after ']'");
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    found.host = text.substr(0, colon);
    if (!std::ranges::all_of(found.host, is_host_char)) return refuse("bad host name");
    rest = text.substr(colon);
  }
  if (rest == ":") return refuse("empty port");
  if (found.host.empty()) return refuse("no host");
  if (rest.empty()) return found;
  const std::string_view digits = rest.substr(1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("bad port in '{}': write a number from 1 to 65535", whole));
  }
  found.port = port;
  return found;
}

}  // namespace driftgate::base
