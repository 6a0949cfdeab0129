#include "daemon/route/relay/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace driftgate::route {
namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::string_view kScheme = "http://";

bool host_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
         byte == '.' || byte == '-' || byte == '_' || byte == ':';
}

}  // namespace

schema::Result<Endpoint> parse_authority(std::string_view text) {
  const auto bad = [&] {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("'{}' is not host:port; write for example 127.0.0.1:8081", text));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad();
  auto host = text.substr(0, colon);
  const auto digits = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  if (host.empty() || host.size() > kMaxHostBytes || !std::ranges::all_of(host, host_byte)) return bad();
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return bad();
  return Endpoint{std::string(host), port, std::string(text)};
}

schema::Result<Endpoint> parse_engine_url(std::string_view url) {
  if (!url.starts_with(kScheme)) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("engine URL '{}' must have the form http://host:port", url));
  }
  auto endpoint = parse_authority(url.substr(kScheme.size()));
  if (endpoint && endpoint->port == 0) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("engine URL '{}' names port 0; give the port that it listens on", url));
  }
  return endpoint;
}

}  // namespace driftgate::route
