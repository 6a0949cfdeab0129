#include "daemon/pipeline/requests/engine_health.hpp"

#include <fmt/format.h>

namespace driftgate::pipeline {

schema::Result<void> check_health(const jobs::EngineAddress& engine, const net::OutgoingPolicy& policy) {
  auto client = TRY(jobs::engine_http(engine, policy, false, kHealthDeadline));
  const auto answer = TRY(client.send(jobs::engine_get(client, "/health")));
  if (answer.status / 100 == 2) return {};
  return schema::fail(schema::ErrorCode::unavailable, fmt::format("GET /health answered {}", answer.status));
}

}  // namespace driftgate::pipeline
