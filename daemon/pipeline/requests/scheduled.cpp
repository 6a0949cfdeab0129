#include "daemon/pipeline/requests/scheduled.hpp"

#include <fmt/format.h>

#include "daemon/auth/tokens.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/requests/promotions.hpp"
#include "daemon/schedule/misfire.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "schema/utf8.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;
using schema::EvidenceKind;
using store::PromotionState;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kLookEveryUs = kSecond;
constexpr std::int64_t kMaxDue = 16;  ///< schedules decided in one look

std::optional<std::int64_t> in_us(const std::optional<std::int64_t>& seconds) {
  return seconds ? std::optional(*seconds * kSecond) : std::nullopt;
}

schema::EntryValue::Object fire_body(const store::ScheduleRow& row, const schedule::DueFire& due,
                                     std::int64_t now_us) {
  return {{"schedule", row.name},
          {"revision", row.revision},
          {"cron", row.cron},
          {"timezone", row.zone},
          {"owner", row.owner},
          {"fire_us", due.fire_s * kSecond},
          {"late_ms", (now_us - due.fire_s * kSecond) / 1'000},
          {"missed", due.missed}};
}

std::string actor_of(const store::ScheduleRow& row) {
  return "schedule/" + row.name;
}

/// Errors that the next look may not meet.
bool may_pass(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::deadline_exceeded || code == ErrorCode::io ||
         code == ErrorCode::storage_full;
}

}  // namespace

/// Decides each schedule that is due; doing it twice changes nothing, since a fire time is stored once.
void ScheduledRequests::fire_due() {
  if (context_.now() < next_look_us_) return;
  next_look_us_ = context_.now() + kLookEveryUs;
  auto due = context_.world.store.read(
      [&](store::Reader& reader) { return store::due_schedules(reader, context_.now(), kMaxDue); });
  if (!due) return context_.warn(fmt::format("schedules cannot be read: {}", due.error().describe()));
  for (const auto& row : *due) {
    if (!firing_.contains(row.name)) fire(row);
  }
}

void ScheduledRequests::fire(const store::ScheduleRow& row) {
  auto cron = schedule::parse_cron(row.cron);
  auto zone = schedule::Zone::find(row.zone);
  if (!cron || !zone) {
    return context_.warn(fmt::format("schedule {} cannot be read: {}", row.name,
                                     (cron ? zone.error() : cron.error()).describe()));
  }
  const auto policy = row.misfire == "run_once" ? schedule::Misfire::run_once : schedule::Misfire::skip;
  const auto due = schedule::decide_due(*cron, *zone, *row.next_us / kSecond, context_.now() / kSecond,
                                        policy, row.grace_s);
  if (!due.run) {
    return skip_fire(row, due, "misfire",
                     fmt::format("the daemon came {} s late, and the schedule's misfire policy is {}",
                                 context_.now() / kSecond - due.fire_s, row.misfire));
  }
  if (const auto* blackout = context_.blackout_of(row.model))
    return skip_fire(row, due, "blackout", fmt::format("the blackout '{}' covers it", blackout->text));
  for (const auto& [id, live] : context_.promotions) {
    if (live->row.model != row.model || row.if_running != "skip") continue;
    return skip_fire(row, due, "running",
                     fmt::format("promotion {} is {}", id, store::to_string(live->row.state)));
  }
  const auto withdrawn = context_.world.store.read(
      [&](store::Reader& reader) { return auth::is_withdrawn(reader, row.owner, auth::Scope::promoter); });
  if (!withdrawn)
    return context_.warn(
        fmt::format("schedule {} is tried again: {}", row.name, withdrawn.error().describe()));
  if (*withdrawn) {
    return skip_fire(row, due, "owner_revoked",
                     fmt::format("the token of {}, who set it last, was revoked: someone who may set "
                                 "schedules has to set it again or delete it",
                                 row.owner));
  }
  auto request = parse_promotion_request(row.request);
  if (!request) return skip_fire(row, due, "refused", request.error().describe());
  firing_.insert(row.name);
  // Hashing a checkpoint takes its time, so it is done beside the loop.
  struct Answers {
    schema::Result<CheckedRequest> checked{};
    schema::Result<bool> verified = false;
  };
  auto answers = std::make_shared<Answers>();
  context_.world.offload(
      [&world = context_.world, answers, actor = actor_of(row), request = std::move(*request)] {
        answers->checked = world.check(actor, request);
        if (answers->checked) answers->verified = world.verify(answers->checked->engine);
      },
      [this, answers, row, due] {
        firing_.erase(row.name);
        request_by(row, due, answers->checked, answers->verified);
      });
}

/// The promotion, its entry, and that of the fire time, in one transaction.
void ScheduledRequests::request_by(const store::ScheduleRow& row, const schedule::DueFire& due,
                                   const schema::Result<CheckedRequest>& checked,
                                   const schema::Result<bool>& verified) {
  if (!verified) return skip_fire(row, due, "refused", verified.error().describe());
  const AlsoRequested also = [&](store::Tx& tx, Entries& entries,
                                 const store::PromotionRow& promotion) -> schema::Result<void> {
    auto body = fire_body(row, due, context_.now());
    body["promotion"] = promotion.id;
    schema::EntryDraft entry{.time_us = context_.now(),
                             .kind = EvidenceKind::schedule_fired,
                             .actor = actor_of(row),
                             .subject = subject_of(promotion, ""),
                             .body = std::move(body)};
    return put_fire(tx, entries, row, due, entry, "fired", "on time", promotion.id);
  };
  auto asked = checked ? request_promotion(context_, actor_of(row), *checked, *verified, also)
                       : schema::Result<std::string>(std::unexpected(checked.error()));
  if (asked) return;
  if (asked.error().code == ErrorCode::already_exists) return move_on(row, due);
  if (may_pass(asked.error().code))
    return context_.warn(fmt::format("schedule {} is tried again: {}", row.name, asked.error().describe()));
  skip_fire(row, due, "refused", asked.error().describe());
}

void ScheduledRequests::skip_fire(const store::ScheduleRow& row, const schedule::DueFire& due,
                                  const std::string& why, const std::string& reason) {
  auto done =
      context_.commit_rows("skip schedule", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
        auto body = fire_body(row, due, context_.now());
        body["why"] = why;
        body["reason"] = schema::utf8_text(reason, 1'000);
        schema::EntryDraft entry{.time_us = context_.now(),
                                 .kind = EvidenceKind::schedule_skipped,
                                 .actor = actor_of(row),
                                 .subject = {},
                                 .body = std::move(body)};
        entry.subject.model = row.model;
        return put_fire(tx, entries, row, due, entry, "skipped", why, std::nullopt);
      });
  if (!done && done.error().code == ErrorCode::already_exists) return move_on(row, due);
  if (!done)
    context_.warn(fmt::format("schedule {} could not be skipped: {}", row.name, done.error().describe()));
}

/// The fire time was decided before, or the schedule changed: nothing but its next fire time is left to do.
void ScheduledRequests::move_on(const store::ScheduleRow& row, const schedule::DueFire& due) {
  auto done = context_.commit_rows("move schedule on", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    auto stored = TRY(store::find_schedule(tx, row.name));
    if (!stored || stored->revision != row.revision || stored->next_us != row.next_us) return {};
    return store::set_next_fire(tx, row.name, in_us(due.next_s));
  });
  if (!done)
    context_.warn(fmt::format("schedule {} could not be moved on: {}", row.name, done.error().describe()));
}

schema::Result<void> ScheduledRequests::put_fire(store::Tx& tx, Entries& entries,
                                                 const store::ScheduleRow& row, const schedule::DueFire& due,
                                                 const schema::EntryDraft& entry, const std::string& outcome,
                                                 const std::string& why,
                                                 const std::optional<std::string>& promotion) const {
  auto stored = TRY(store::find_schedule(tx, row.name));
  if (!stored || stored->revision != row.revision || stored->next_us != row.next_us)
    return schema::fail(ErrorCode::already_exists, fmt::format("schedule {} was changed", row.name));
  auto seq = TRY(entries.add(tx, entry));
  const store::ScheduleFireRow fire{.schedule = row.name,
                                    .fire_us = due.fire_s * kSecond,
                                    .outcome = outcome,
                                    .why = why,
                                    .promotion = promotion,
                                    .owner = row.owner,
                                    .decided_us = context_.now(),
                                    .evidence_seq = seq};
  TRY(store::insert_schedule_fire(tx, fire));
  return store::set_next_fire(tx, row.name, in_us(due.next_s));
}

}  // namespace driftgate::pipeline
