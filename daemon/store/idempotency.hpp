#pragma once

#include <optional>
#include <string>

#include "daemon/store/sql.hpp"

namespace driftgate::store {

inline constexpr std::size_t kMaxIdempotencyKeyBytes = 255;

struct StoredResponse {
  int status = 0;
  std::string headers{};  ///< JSON object of the headers to repeat (Location, ETag)
  std::string body{};
  /// What was made, when the daemon died before its answer was kept: then there is no status and no body.
  std::string effect{};
  bool operator==(const StoredResponse&) const = default;
};

/// Begins a request with an Idempotency-Key. Nothing: go on, and call idempotency_finish. A response: the
/// same request was answered, replay it. `conflict`: the same request is in flight (409). `invalid_argument`:
/// the key was used with another request (422). `limit_exceeded`: the key is empty or too long. When begin,
/// the effect and finish share one transaction, a crash leaves nothing in between.
Result<std::optional<StoredResponse>> idempotency_begin(Tx& tx, std::string_view principal,
                                                        std::string_view key, std::string_view request_digest,
                                                        std::int64_t now_us);
Result<void> idempotency_finish(Tx& tx, std::string_view principal, std::string_view key,
                                const StoredResponse& response);
/// Notes what a request in flight makes, in the transaction that makes it: from then on it is never forgotten as
/// one without effect. Without such a request nothing is noted.
Result<void> idempotency_bind(Tx& tx, std::string_view principal, std::string_view key,
                              std::string_view effect);
/// Forgets a request in flight that had no effect, so that it may be tried again; one that is bound is kept.
Result<void> idempotency_abandon(Tx& tx, std::string_view principal, std::string_view key);
/// Forgets what is older than `before_us`; with `in_flight_too` (at start: they belonged to a daemon that is
/// gone) also every request in flight that made nothing, and ends those that did. Returns how many it forgot.
Result<std::int64_t> idempotency_forget(Tx& tx, std::int64_t before_us, bool in_flight_too);

}  // namespace driftgate::store
