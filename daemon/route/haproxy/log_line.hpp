#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/route/control/telemetry.hpp"

namespace driftgate::route::haproxy {

/// What HAProxy says of a request when it is over, by the log-format of config_text.cpp.
struct LogLine {
  std::uint64_t boot = 0;   ///< which HAProxy process: when it was configured, µs since the epoch
  std::string backend;      ///< of the model
  std::uint32_t order = 0;  ///< in which the process routed the requests of this backend; wraps
  std::string tag;          ///< of the route (maps.hpp)
  char arm = 'i';           ///< i: incumbent, m: incumbent through the router, c: candidate, f: fallback
  bool keyless = false;
  bool pinned = false;
  std::uint32_t candidate_bp = 0;
  std::uint64_t key_hash = 0;  ///< key_hash_of, KeyHash::text
  std::int64_t routed_us = 0;  ///< wall clock
  std::int64_t ended_us = 0;
  int status = 0;        ///< HTTP; -1: none was sent
  std::string end;       ///< how it ended, two letters: docs of HAProxy, "Session state at disconnection"
  bool retried = false;  ///< tried again on the incumbent
  std::string slice;     ///< the header driftgate-slice as it came; "" without one
};

inline constexpr std::size_t kMaxLogLineBytes = 4'096;
inline constexpr std::string_view kLogLineName = "driftgate1";

/// Reads a line; nothing for what is not one with this secret: other programs may write to the same socket.
[[nodiscard]] std::optional<LogLine> parse_log_line(std::string_view line, std::string_view secret);

/// The request as telemetry has it, but for its order. HAProxy does not read answers: times of tokens are not
/// known (NaN), and a body that is complete counts as good.
[[nodiscard]] Observation observation_of(const LogLine& line);

}  // namespace driftgate::route::haproxy
