#include "daemon/store/idempotency.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kFind{"find idempotent request",
                    "SELECT request_digest, status, headers, body, effect FROM idempotency "
                    "WHERE principal = ?1 AND key = ?2 AND state = 'done'"};
constexpr Sql kKeep{"keep idempotent answer",
                    "INSERT INTO idempotency(principal, key, request_digest, state, status, headers, body, "
                    "created_us, effect) VALUES(?1, ?2, ?3, 'done', ?4, ?5, ?6, ?7, ?8)"};
constexpr Sql kReplace{"replace idempotent answer",
                       "UPDATE idempotency SET status = ?4, headers = ?5, body = ?6 "
                       "WHERE principal = ?1 AND key = ?2 AND request_digest = ?3 AND state = 'done'"};
constexpr Sql kEndBound{"end bound idempotent requests",
                        "UPDATE idempotency SET state = 'done' WHERE state = 'in_flight' AND effect <> ''"};
constexpr Sql kForget{"forget idempotent requests",
                      "DELETE FROM idempotency WHERE created_us < ?1 OR (?2 AND state = 'in_flight')"};

struct Stored {
  std::string request_digest;
  StoredResponse response;
};

}  // namespace

Result<std::optional<StoredResponse>> idempotency_find(Reader& reader, const KeyedRequest& request) {
  if (request.key.empty() || request.key.size() > kMaxIdempotencyKeyBytes) {
    return schema::fail(ErrorCode::limit_exceeded, "an Idempotency-Key must have 1 to 255 characters");
  }
  auto stored = TRY(find_row<Stored>(reader, kFind, {request.principal, request.key}));
  if (!stored) return std::nullopt;
  if (stored->request_digest != request.digest) {
    return schema::failf(ErrorCode::invalid_argument,
                         "the Idempotency-Key '{}' was used with another request: use a new key",
                         request.key);
  }
  return std::move(stored->response);
}

Result<void> idempotency_keep(Tx& tx, const KeyedRequest& request, const StoredResponse& response,
                              std::int64_t now_us) {
  auto kept = tx.run(kKeep, {request.principal, request.key, request.digest, response.status, response.headers,
                             Blob{response.body}, now_us, response.effect});
  return explain(kept, fmt::format("the Idempotency-Key '{}' was used at the same time", request.key));
}

Result<void> idempotency_replace(Tx& tx, const KeyedRequest& request, const StoredResponse& response) {
  return must_change(tx.run(kReplace, {request.principal, request.key, request.digest, response.status,
                                       response.headers, Blob{response.body}}),
                     ErrorCode::not_found,
                     fmt::format("no answer is kept under the Idempotency-Key '{}'", request.key));
}

Result<std::int64_t> idempotency_forget(Tx& tx, std::int64_t before_us, bool in_flight_too) {
  if (in_flight_too) {
    TRY(tx.run(kEndBound, {}));
  }
  return tx.run(kForget, {before_us, in_flight_too});
}

}  // namespace driftgate::store
