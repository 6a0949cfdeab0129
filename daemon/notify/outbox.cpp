#include "daemon/notify/outbox.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "daemon/base/entry_members.hpp"
#include "daemon/store/outbox.hpp"
#include "schema/sha256.hpp"

namespace driftgate::notify {
namespace {

constexpr std::size_t kIdDigits = 32;

/// States of a promotion that people are told of: its ends, and where it waits for them.
constexpr std::string_view kToldStates[] = {"awaiting_approval", "inconclusive", "succeeded", "rejected",
                                            "errored",           "aborted",      "expired",   "superseded"};

bool wants(const Subscriber& subscriber, std::string_view type) {
  if (subscriber.events.empty()) return true;
  return std::ranges::any_of(subscriber.events, [&](const std::string& pattern) {
    if (pattern.ends_with(".*"))
      return type.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
    return pattern == type;
  });
}

/// Whether the entry says that webhooks are told.
bool is_told(const schema::EntryDraft& entry) {
  const auto found = entry.body.find("notify");
  return found != entry.body.end() && found->second.boolean() != nullptr && *found->second.boolean();
}

/// Whether a fire time was skipped for a reason that no setting asked for: unlike a blackout, a promotion in
/// progress or a change by a person.
bool is_unwanted(std::string_view why) {
  return why == "refused" || why == "owner_revoked" || why == "misfire";
}

}  // namespace

std::optional<std::string> event_type(const schema::EntryDraft& entry) {
  switch (entry.kind) {
    case schema::EvidenceKind::state_changed: {
      const auto to = base::text_at(entry.body, "to");
      const bool told = base::text_at(entry.body, "from") != to &&
                        std::ranges::find(kToldStates, to) != std::end(kToldStates);
      return told ? std::optional(fmt::format("promotion.{}", to)) : std::nullopt;
    }
    case schema::EvidenceKind::hold_set:
      return "model.held";
    case schema::EvidenceKind::block_set:
      return "version.blocked";
    case schema::EvidenceKind::escalation_decided:
      return is_told(entry) ? std::optional<std::string>("escalation.notify") : std::nullopt;
    case schema::EvidenceKind::guard_alarmed:
      return is_told(entry) ? std::optional<std::string>("guard.alarm") : std::nullopt;
    case schema::EvidenceKind::schedule_skipped:
      return is_unwanted(base::text_at(entry.body, "why")) ? std::optional<std::string>("schedule.skipped")
                                                           : std::nullopt;
    default:
      return std::nullopt;
  }
}

const std::vector<std::string>& event_types() {
  static const std::vector<std::string> kTypes = [] {
    std::vector<std::string> types;
    for (const auto state : kToldStates) types.push_back(fmt::format("promotion.{}", state));
    for (const char* type :
         {"model.held", "version.blocked", "escalation.notify", "guard.alarm", "schedule.skipped"})
      types.emplace_back(type);
    types.emplace_back(kReportEvent);
    types.emplace_back(kTestEvent);
    return types;
  }();
  return kTypes;
}

bool known_pattern(std::string_view pattern) {
  return std::ranges::any_of(event_types(), [&](const std::string& type) {
    return wants({.name = {}, .events = {std::string(pattern)}}, type);
  });
}

std::string payload_of(std::string_view type, std::int64_t time_us, std::string_view entry) {
  const std::chrono::sys_time<std::chrono::seconds> at{std::chrono::seconds(time_us / 1'000'000)};
  return fmt::format(R"({{"type":"{}","timestamp":"{:%Y-%m-%dT%H:%M:%S}.{:06}Z","data":{}}})", type, at,
                     time_us % 1'000'000, entry);
}

std::string message_id(std::string_view entry) {
  return "msg_" + schema::to_hex(schema::sha256(entry)).substr(0, kIdDigits);
}

schema::Result<void> Outbox::put(store::Tx& tx, std::string_view entry, std::int64_t now_us) const {
  if (subscribers_.empty()) return {};
  const auto decoded = TRY(schema::decode_entry(entry));
  const auto type = event_type(decoded.draft);
  if (!type) return {};
  store::OutboxRow row{.message = message_id(entry),
                       .type = *type,
                       .payload = payload_of(*type, decoded.draft.time_us, entry),
                       .due_us = now_us,
                       .created_us = now_us};
  return put_row(tx, std::move(row));
}

schema::Result<void> Outbox::put_message(store::Tx& tx, std::string_view type, std::string_view data,
                                         std::int64_t time_us, std::int64_t now_us) const {
  return put_row(tx, {.message = message_id(data),
                      .type = std::string(type),
                      .payload = payload_of(type, time_us, data),
                      .due_us = now_us,
                      .created_us = now_us});
}

schema::Result<void> Outbox::put_row(store::Tx& tx, store::OutboxRow row) const {
  for (const auto& subscriber : subscribers_) {
    if (!wants(subscriber, row.type)) continue;
    const auto known = TRY(store::find_webhook(tx, subscriber.name));
    if (known && known->disabled_us) continue;
    row.endpoint = subscriber.name;
    TRY(store::put_outbox(tx, row));
    TRY(store::drop_outbox(tx, subscriber.name, kMaxPending, row.created_us, "the outbox was full"));
  }
  return {};
}

}  // namespace driftgate::notify
