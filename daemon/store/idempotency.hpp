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
  /// Id of what the request made. A row without a status is of an older version of the daemon, which died
  /// before it stored its answer.
  std::string effect{};
  bool operator==(const StoredResponse&) const = default;
};

/// A request with an Idempotency-Key.
struct KeyedRequest {
  std::string_view principal;
  std::string_view key;     ///< 1 … kMaxIdempotencyKeyBytes
  std::string_view digest;  ///< of method, path, query and body
};

/// The stored answer to the request, or nothing when its key is new. `invalid_argument`: the key was used
/// with another request (422). `limit_exceeded`: the key is empty or too long.
Result<std::optional<StoredResponse>> idempotency_find(Reader& reader, const KeyedRequest& request);
/// Stores the answer in the transaction of its effect, so that a crash leaves both or neither.
/// `already_exists` when a request with the same key was answered meanwhile; the effect must then be undone.
Result<void> idempotency_keep(Tx& tx, const KeyedRequest& request, const StoredResponse& response,
                              std::int64_t now_us);
/// Stores a newer answer to a request that was answered; `not_found` when it was not.
Result<void> idempotency_replace(Tx& tx, const KeyedRequest& request, const StoredResponse& response);
/// Deletes what is older than `before_us`. With `in_flight_too`, which is for the start of the daemon, it
/// also deletes the requests in flight that made nothing, and ends those that did: older versions stored a
/// request when it began. Returns the number of deleted requests.
Result<std::int64_t> idempotency_forget(Tx& tx, std::int64_t before_us, bool in_flight_too);

}  // namespace driftgate::store
