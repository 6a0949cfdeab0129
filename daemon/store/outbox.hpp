#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// One message for one webhook endpoint.
struct OutboxRow {
  std::int64_t id = 0;     ///< set by the store, in the order of creation
  std::string endpoint{};  ///< name in the settings
  std::string message{};   ///< stable id, by which a receiver recognises repetitions
  std::string type{};      ///< "promotion.rejected", …
  std::string payload{};   ///< the body that is sent and signed
  std::int64_t attempts = 0;
  std::int64_t due_us = 0;
  std::int64_t created_us = 0;
  bool operator==(const OutboxRow&) const = default;
};

enum class OutboxEnd : std::uint8_t { delivered, failed, dropped };
[[nodiscard]] std::string_view to_string(OutboxEnd end);

/// Adds a pending message; the same message for the same endpoint again changes nothing.
Result<void> put_outbox(Tx& tx, const OutboxRow& row);
/// Pending messages whose time has come, oldest first, at most `limit`.
Result<std::vector<OutboxRow>> due_outbox(Reader& reader, std::string_view endpoint, std::int64_t now_us,
                                          std::int64_t limit);
/// When the next pending message is due; nothing without one.
Result<std::optional<std::int64_t>> next_outbox(Reader& reader, std::string_view endpoint);
/// Records a failed attempt and when the next one is due.
Result<void> retry_outbox(Tx& tx, std::int64_t id, std::int64_t due_us, std::string_view error);
/// Ends a pending message and counts its last attempt.
Result<void> end_outbox(Tx& tx, std::int64_t id, OutboxEnd end, std::int64_t now_us, std::string_view error);
/// Drops the pending messages of an endpoint beyond the newest `keep`. Returns how many.
Result<std::int64_t> drop_outbox(Tx& tx, std::string_view endpoint, std::int64_t keep, std::int64_t now_us,
                                 std::string_view why);
/// Deletes what has ended beyond the newest `keep` of an endpoint.
Result<void> prune_outbox(Tx& tx, std::string_view endpoint, std::int64_t keep);

struct OutboxCounts {
  std::int64_t pending = 0, delivered = 0, failed = 0, dropped = 0;  ///< of those still kept
  std::string last_error{};                                          ///< of the newest that has one
  bool operator==(const OutboxCounts&) const = default;
};
Result<OutboxCounts> count_outbox(Reader& reader, std::string_view endpoint);

/// An endpoint as it was last used.
struct WebhookRow {
  std::string name{}, url{};
  std::optional<std::int64_t> disabled_us{};
  std::string reason{};  ///< why it is disabled
  bool operator==(const WebhookRow&) const = default;
};
/// Records the endpoint's URL. A changed URL enables the endpoint again.
Result<void> ensure_webhook(Tx& tx, std::string_view name, std::string_view url);
Result<void> disable_webhook(Tx& tx, std::string_view name, std::int64_t now_us, std::string_view reason);
Result<void> enable_webhook(Tx& tx, std::string_view name);
Result<std::optional<WebhookRow>> find_webhook(Reader& reader, std::string_view name);

}  // namespace driftgate::store
