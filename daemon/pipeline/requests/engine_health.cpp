#include "daemon/pipeline/requests/engine_health.hpp"

#include <fmt/format.h>

#include "daemon/net/http_client.hpp"

namespace driftgate::pipeline {

schema::Result<void> check_health(const std::string& base_url, const net::OutgoingPolicy& policy) {
  const auto url = TRY(net::parse_url(base_url));
  TRY(net::check_outgoing(url, policy));
  net::ClientOptions options;
  options.connect_timeout = options.total_timeout = kHealthDeadline;
  options.max_body_bytes = 64 * 1024;
  net::HttpClient client(url, net::with_policy(options, url, policy));
  net::ClientRequest request;
  request.target = net::join_target(url.target, "/health");
  const auto answer = TRY(client.send(request));
  if (answer.status / 100 == 2) return {};
  return schema::fail(schema::ErrorCode::unavailable, fmt::format("GET /health answered {}", answer.status));
}

}  // namespace driftgate::pipeline
