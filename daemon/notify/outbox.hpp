#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/outbox.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::notify {

inline constexpr std::size_t kMaxEndpoints = 16;
inline constexpr std::int64_t kMaxPending = 10'000;  ///< of one endpoint; the oldest beyond it are dropped
inline constexpr std::string_view kTestEvent = "driftgate.test";
/// A report of the schedules, which no entry stands for (daemon/pipeline/requests/scheduled_reports.hpp).
inline constexpr std::string_view kReportEvent = "schedule.report";

/// An endpoint and the events that it is told of.
struct Subscriber {
  std::string name;                 ///< as in the settings
  std::vector<std::string> events;  ///< "promotion.rejected" or "promotion.*"; empty = all
};

/// The event that an entry is told as (docs/webhooks.md): "promotion.awaiting_approval",
/// "promotion.inconclusive", "promotion.rejected" and each other end, "model.held", "version.blocked",
/// "escalation.notify", "schedule.skipped" (of what no setting asked for); nothing for entries that nobody is
/// told of.
[[nodiscard]] std::optional<std::string> event_type(const schema::EntryDraft& entry);
/// Every event type, for settings and documents.
[[nodiscard]] const std::vector<std::string>& event_types();
/// "promotion.*" and exact names; false for a pattern that fits no event type.
[[nodiscard]] bool known_pattern(std::string_view pattern);

/// The body of a message: {"type", "timestamp" (RFC 3339), "data": the entry's exact bytes}.
[[nodiscard]] std::string payload_of(std::string_view type, std::int64_t time_us, std::string_view entry);
/// "msg_" and 32 hex digits of the entry's SHA-256: the same whenever it is sent.
[[nodiscard]] std::string message_id(std::string_view entry);

/// Puts messages into the outbox in the caller's transaction: nothing is sent before its COMMIT.
class Outbox {
 public:
  Outbox() = default;
  explicit Outbox(std::vector<Subscriber> subscribers) : subscribers_(std::move(subscribers)) {}
  /// `entry`: the exact bytes of one evidence entry that the same transaction appends. An endpoint that is
  /// disabled gets nothing.
  schema::Result<void> put(store::Tx& tx, std::string_view entry, std::int64_t now_us) const;
  /// The same of a message that no entry stands for; `data` is JSON that no other message of its type has.
  schema::Result<void> put_message(store::Tx& tx, std::string_view type, std::string_view data,
                                   std::int64_t time_us, std::int64_t now_us) const;
  [[nodiscard]] bool empty() const { return subscribers_.empty(); }

 private:
  schema::Result<void> put_row(store::Tx& tx, store::OutboxRow row) const;

  std::vector<Subscriber> subscribers_;
};

}  // namespace driftgate::notify
