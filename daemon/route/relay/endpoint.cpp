#include "daemon/route/relay/endpoint.hpp"

#include <utility>

#include "daemon/base/authority.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::string_view kScheme = "http://";

}  // namespace

schema::Result<Endpoint> parse_authority(std::string_view text) {
  auto read = base::parse_authority(text, text);
  if (!read || !read->port || read->host.size() > kMaxHostBytes)
    return schema::failf(schema::ErrorCode::invalid_argument, "'{}' is not host:port, such as 127.0.0.1:8081",
                         text);
  return Endpoint{std::move(read->host), *read->port, std::string(text)};
}

schema::Result<Endpoint> parse_engine_url(std::string_view url) {
  if (!url.starts_with(kScheme))
    return schema::failf(schema::ErrorCode::invalid_argument,
                         "engine URL '{}' must have the form http://host:port", url);
  auto endpoint = parse_authority(url.substr(kScheme.size()));
  if (endpoint && endpoint->port == 0)
    return schema::failf(schema::ErrorCode::invalid_argument,
                         "engine URL '{}' has port 0; use the port that the engine listens on", url);
  return endpoint;
}

}  // namespace driftgate::route
