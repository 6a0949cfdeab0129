#pragma once
/// The OpenAI-compatible server: POST /v1/completions, GET /v1/models, GET /props, GET /health.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/tinylm/src/engine.hpp"
#include "examples/tinylm/src/faults.hpp"
#include "examples/tinylm/src/serving/scheduler.hpp"

namespace tinylm {

struct ServeOptions {
  std::string host = "127.0.0.1", port_file, model_name = "tinylm";
  std::uint16_t port = 0;
  std::size_t threads = 1;
  SchedulerLimits limits;
  FaultOptions faults;
};

/// Limit on connections served at the same time; further ones get status 503.
inline constexpr std::size_t kMaxConnections = 256;

/// Serves until SIGTERM or SIGINT, then waits up to 5 s for running requests and returns.
Result<void> serve(Engine engine, const std::string& checkpoint_digest, const ServeOptions& options);

}  // namespace tinylm
