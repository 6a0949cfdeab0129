#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace driftgate::route {

/// How a request ended (`error_rate` of docs/design/measurement.md, "Registry of names").
enum class Outcome : std::uint8_t {
  ok,
  failed,    ///< connect error, 5xx, 429, timeout, stream without its end, body not as the API promises
  excluded,  ///< other 4xx, client disconnect: outside the denominator
};

/// What is known of a request when it has ended.
struct Ending {
  Outcome outcome = Outcome::ok;
  std::string reason;         ///< for failures: connect, status_500, timeout, truncated_stream, bad_body …
  bool retried = false;       ///< served by the incumbent after the candidate failed before its first byte
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
};

inline constexpr std::size_t kMaxObservations = 65'536;

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
  } incumbent, candidate;
};

}  // namespace driftgate::route
