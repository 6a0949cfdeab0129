#pragma once

#include <chrono>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/net/outgoing.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

/// Longest time that a decision waits for an engine's health.
inline constexpr std::chrono::milliseconds kHealthDeadline{1'000};

/// GET /health of an engine: fine when it answers 2xx within the deadline. Errors of jobs::engine_http and
/// net::HttpClient, `unavailable` for another status.
[[nodiscard]] schema::Result<void> check_health(const jobs::EngineAddress& engine,
                                                const net::OutgoingPolicy& policy);

}  // namespace driftgate::pipeline
