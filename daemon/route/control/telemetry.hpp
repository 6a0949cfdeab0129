#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/route/health/breaker.hpp"

namespace driftgate::route {

/// How a request ended (`error_rate` of docs/design/measurement.md, "Registry of names").
enum class Outcome : std::uint8_t {
  ok,
  failed,  ///< connect error, 5xx, 429, first byte late, timeout, stall, stream without its end, body not as
           ///< the API promises, or not asked since the candidate's breaker was open
  excluded,  ///< other 4xx, client disconnect: outside the denominator
};

/// What is known of a request when it has ended.
struct Ending {
  Outcome outcome = Outcome::ok;
  std::string reason;         ///< for failures: connect, status_500, first_byte, breaker_open, bad_body …
  bool retried = false;       ///< served by the incumbent after the candidate failed before its first byte
  bool withheld = false;      ///< the candidate was not asked at all: its breaker was open
  double ttft_ms = 0;         ///< accepted → first token
  double inter_token_ms = 0;  ///< mean gap between tokens; NaN when fewer than two
  double total_ms = 0;        ///< accepted → last byte
};

/// One request, reported in routing order once every request routed before it has ended or timed out,
/// so that slow failures of one arm do not count late (docs/design/statistics.md, "Single failures").
struct Observation : Ending {
  std::uint64_t order = 0;     ///< routing order within the router process, from 1
  std::uint64_t key_hash = 0;  ///< xxh64 of the sticky key; random for keyless requests
  bool keyless = false;
  bool pinned = false;     ///< not counted by any test
  bool candidate = false;  ///< the arm that was asked first (a retry on the incumbent does not change it)
  std::uint32_t candidate_bp = 0;  ///< the configured share for this slice when the request was routed
  std::string slice;               ///< canonical "domain=code;language=de"; sorted by dimension
  std::int64_t routed_us = 0;      ///< wall clock, µs since the epoch
  std::uint32_t prompt_chars = 0;
};

/// How far windows were read: numbers mean something only together with the process that gave them.
struct WindowPosition {
  std::string router_id;  ///< empty when no window was read yet
  std::uint64_t number = 0;
  bool operator==(const WindowPosition&) const = default;
};

/// What the router counted in one window of one model. Kept by the router until acknowledged.
struct Window {
  std::uint64_t number = 0;    ///< 1, 2, … within (router process); replay is idempotent by it
  std::uint64_t previous = 0;  ///< number of this model's window before; 0 = the process had none
  std::string router_id;       ///< random per router process
  std::string model;
  std::string stage_key;  ///< of the route in force when these requests were routed
  std::int64_t start_us = 0;
  std::int64_t end_us = 0;
  std::vector<Observation> observations;  ///< by `order`; at most kMaxObservations
  std::uint64_t dropped = 0;              ///< beyond the limit: the measurement is then broken
  std::uint64_t mirrored = 0;             ///< pairs written to the spool
  std::uint64_t mirror_failed = 0;        ///< mirrored requests that the candidate failed
  std::uint64_t mirror_skipped = 0;       ///< not mirrored: queue, body or token budget at its limit
  std::uint64_t others = 0;         ///< requests that are passed on without being judged (docs/endpoints.md)
  std::uint64_t others_failed = 0;  ///< of these: no engine answered, or with 429 or 5xx
};

inline constexpr std::size_t kMaxObservations = 65'536;

/// What the router knows of one engine's health now.
struct EngineStatus {
  std::string url;
  BreakerState state = BreakerState::closed;
  std::uint32_t failures = 0;         ///< in a row, of requests and probes
  std::string reason;                 ///< of the newest of them; empty when there is none
  std::int64_t first_failure_us = 0;  ///< of the oldest of them, wall clock; 0 when there is none
  std::uint64_t open_ms = 0;  ///< since the breaker opened, whatever was tried since; 0 while it is closed
  std::uint32_t first_byte_ms = 0;  ///< limit to the first byte of a streamed answer; 0: none known yet
  std::uint32_t answer_ms = 0;      ///< limit of an answer that is not streamed; 0: none known yet
  std::uint32_t in_flight = 0;      ///< requests that it was sent and has not answered to their end
};

/// A breaker opened or closed.
struct BreakerEvent {
  std::uint64_t number = 0;  ///< 1, 2, … within the router process
  std::string url;           ///< of the engine
  bool opened = false;
  std::string reason;                 ///< of the newest failure before it opened
  std::uint32_t failures = 0;         ///< in a row when it opened
  std::int64_t at_us = 0;             ///< wall clock
  std::int64_t first_failure_us = 0;  ///< of the first of these failures
  std::uint64_t open_ms = 0;          ///< for how long it had been open when it closed
};

/// Read beside the windows, since a breaker does not wait for one to close.
struct HealthReport {
  std::string router_id;
  std::vector<EngineStatus> engines;
  std::vector<BreakerEvent> events;  ///< by number; the router keeps the newest kMaxBreakerEvents
};

inline constexpr std::size_t kMaxBreakerEvents = 1'024;
inline constexpr std::size_t kMaxReportedEngines = 30'000;
inline constexpr std::size_t kMaxReasonBytes = 64;

/// One mirrored request with both answers, one JSON line in the spool file of its stage.
struct MirroredPair {
  std::uint64_t order = 0;
  std::uint64_t key_hash = 0;
  std::string slice;
  std::string path;          ///< "/v1/completions"
  std::string request_body;  ///< as sent by the client
  struct Side {
    int status = 0;      ///< HTTP status; 0 = no answer
    std::string body;    ///< JSON, or the concatenated SSE text for streams
    std::string reason;  ///< failure reason or empty
    double ttft_ms = 0, inter_token_ms = 0, total_ms = 0;
    /// Requests of users and copies at this engine when it was asked, with this one; absent where another
    /// data plane sends it requests as well.
    std::optional<std::uint32_t> in_flight = {};
  } incumbent, candidate;
};

}  // namespace driftgate::route
