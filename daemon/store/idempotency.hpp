#pragma once

#include <optional>
#include <string>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

inline constexpr std::size_t kMaxIdempotencyKeyBytes = 255;

struct StoredResponse {
  int status = 0;
  std::string headers{};  ///< JSON object of the headers to repeat (Location, ETag)
  std::string body{};
  /// Id of what was made. Without a status: by a daemon of before, which died before its answer was kept.
  std::string effect{};
  bool operator==(const StoredResponse&) const = default;
};

/// A request with an Idempotency-Key.
struct KeyedRequest {
  std::string_view principal;
  std::string_view key;     ///< 1 … kMaxIdempotencyKeyBytes
  std::string_view digest;  ///< of method, path, query and body
};

/// The answer that is kept for the request; nothing when its key is new. `invalid_argument`: the key was used
/// with another request (422). `limit_exceeded`: the key is empty or too long.
Result<std::optional<StoredResponse>> idempotency_find(Reader& reader, const KeyedRequest& request);
/// Keeps the answer, in the transaction of its effect: a crash leaves both or neither. `already_exists` when the
/// same key was answered meanwhile; the effect must then be undone with it.
Result<void> idempotency_keep(Tx& tx, const KeyedRequest& request, const StoredResponse& response,
                              std::int64_t now_us);
/// Forgets what is older than `before_us`; with `in_flight_too` (at start: a daemon of before noted the
/// beginning of a request on its own) also every request in flight that made nothing, and ends those that did.
/// Returns how many it forgot.
Result<std::int64_t> idempotency_forget(Tx& tx, std::int64_t before_us, bool in_flight_too);

}  // namespace driftgate::store
