#include "daemon/route/relay/endpoint.hpp"

#include <fmt/format.h>

#include <utility>

#include "daemon/base/authority.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::string_view kScheme = "http://";

}  // namespace

schema::Result<Endpoint> parse_authority(std::string_view text) {
  auto read = base::parse_authority(text, text);
  if (!read || !read->port || read->host.size() > kMaxHostBytes) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("'{}' is not host:port; write for example 127.0.0.1:8081", text));
  }
  return Endpoint{std::move(read->host), *read->port, std::string(text)};
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
