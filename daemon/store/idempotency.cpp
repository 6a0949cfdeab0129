#include "daemon/store/idempotency.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kBegin{
    "begin idempotent request",
    "INSERT INTO idempotency(principal, key, request_digest, state, status, headers, body, created_us) "
    "VALUES(?1, ?2, ?3, 'in_flight', 0, '', x'', ?4) ON CONFLICT(principal, key) DO NOTHING"};
constexpr Sql kFind{"find idempotent request",
                    "SELECT request_digest, state, status, headers, body, effect FROM idempotency "
                    "WHERE principal = ?1 AND key = ?2"};
constexpr Sql kFinish{"finish idempotent request",
                      "UPDATE idempotency SET state = 'done', status = ?3, headers = ?4, body = ?5 "
                      "WHERE principal = ?1 AND key = ?2 AND state = 'in_flight'"};
constexpr Sql kAbandon{"abandon idempotent request",
                       "DELETE FROM idempotency WHERE principal = ?1 AND key = ?2 AND state = 'in_flight'"};
constexpr Sql kBind{"bind idempotent request",
                    "UPDATE idempotency SET effect = ?3 "
                    "WHERE principal = ?1 AND key = ?2 AND state = 'in_flight'"};
constexpr Sql kKeepBound{"keep bound idempotent request",
                         "UPDATE idempotency SET state = 'done' "
                         "WHERE principal = ?1 AND key = ?2 AND state = 'in_flight' AND effect <> ''"};
constexpr Sql kEndBound{"end bound idempotent requests",
                        "UPDATE idempotency SET state = 'done' WHERE state = 'in_flight' AND effect <> ''"};
constexpr Sql kForget{"forget idempotent requests",
                      "DELETE FROM idempotency WHERE created_us < ?1 OR (?2 AND state = 'in_flight')"};

struct Stored {
  std::string request_digest;
  bool done = false;
  StoredResponse response;
};

Stored read_stored(const Row& row) {
  return {
      .request_digest = row.text(0),
      .done = row.text(1) == "done",
      .response = {.status = static_cast<int>(row.integer(2)),
                   .headers = row.text(3),
                   .body = row.text(4),
                   .effect = row.text(5)}};
}

}  // namespace

Result<std::optional<StoredResponse>> idempotency_begin(Tx& tx, std::string_view principal,
                                                        std::string_view key, std::string_view request_digest,
                                                        std::int64_t now_us) {
  if (key.empty() || key.size() > kMaxIdempotencyKeyBytes) {
    return schema::fail(ErrorCode::limit_exceeded, "an Idempotency-Key has 1 to 255 characters");
  }
  auto begun = tx.run(kBegin, {principal, key, request_digest, now_us});
  if (!begun) return std::unexpected(std::move(begun.error()));
  if (*begun == 1) return std::optional<StoredResponse>();
  auto stored =
      must_exist(tx.one(kFind, {principal, key}, read_stored), "the idempotency key just found is missing");
  if (!stored) return std::unexpected(std::move(stored.error()));
  if (stored->request_digest != request_digest) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("the Idempotency-Key '{}' was used with another request: use a new key", key));
  }
  if (!stored->done) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("the request with Idempotency-Key '{}' is still being answered: try again", key));
  }
  return std::move(stored->response);
}

Result<void> idempotency_finish(Tx& tx, std::string_view principal, std::string_view key,
                                const StoredResponse& response) {
  return must_change(
      tx.run(kFinish, {principal, key, response.status, response.headers, Blob{response.body}}),
      ErrorCode::not_found, fmt::format("no request with Idempotency-Key '{}' is in flight", key));
}

Result<void> idempotency_bind(Tx& tx, std::string_view principal, std::string_view key,
                              std::string_view effect) {
  auto changed = tx.run(kBind, {principal, key, effect});
  if (!changed) return std::unexpected(std::move(changed.error()));
  return {};
}

Result<void> idempotency_abandon(Tx& tx, std::string_view principal, std::string_view key) {
  auto kept = tx.run(kKeepBound, {principal, key});
  if (!kept) return std::unexpected(std::move(kept.error()));
  auto changed = tx.run(kAbandon, {principal, key});
  if (!changed) return std::unexpected(std::move(changed.error()));
  return {};
}

Result<std::int64_t> idempotency_forget(Tx& tx, std::int64_t before_us, bool in_flight_too) {
  if (in_flight_too) {
    auto ended = tx.run(kEndBound, {});
    if (!ended) return std::unexpected(std::move(ended.error()));
  }
  return tx.run(kForget, {before_us, in_flight_too});
}

}  // namespace driftgate::store
