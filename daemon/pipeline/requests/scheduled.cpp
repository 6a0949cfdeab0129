#include "daemon/pipeline/requests/scheduled.hpp"

#include <fmt/format.h>

#include "daemon/auth/tokens.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/requests/promotions.hpp"
#include "daemon/schedule/misfire.hpp"
#include "daemon/store/look_up.hpp"
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

/// A schedule, and the fire time of it that is decided.
struct Fire {
  store::ScheduleRow row;
  schedule::DueFire due;
};

/// The schedule is still what it was when it was found due.
schema::Result<bool> is_unchanged(store::Reader& reader, const store::ScheduleRow& row) {
  const auto stored = TRY(store::find_schedule(reader, row.name));
  return stored && stored->revision == row.revision && stored->next_us == row.next_us;
}

/// Stores what was decided, `decided` with its outcome, reason and promotion, and when the schedule fires
/// next.
schema::Result<void> put_fire(Context& context, store::Tx& tx, Entries& entries, const Fire& fire,
                              schema::EntryDraft entry, store::ScheduleFireRow decided) {
  const auto& [row, due] = fire;
  const auto unchanged = TRY(is_unchanged(tx, row));
  if (!unchanged)
    return schema::fail(ErrorCode::already_exists, fmt::format("schedule {} was changed", row.name));
  entry.time_us = context.now();
  entry.actor = actor_of(row);
  entry.body.merge(fire_body(row, due, context.now()));
  const auto seq = TRY(entries.add(tx, entry));
  decided.schedule = row.name;
  decided.fire_us = due.fire_s * kSecond;
  decided.owner = row.owner;
  decided.decided_us = context.now();
  decided.evidence_seq = seq;
  TRY(store::insert_schedule_fire(tx, decided));
  return store::set_next_fire(tx, row.name, in_us(due.next_s));
}

/// The fire time was decided before, or the schedule changed: nothing but its next fire time is left to do.
void move_on(Context& context, const Fire& fire) {
  const auto& name = fire.row.name;
  auto done = context.commit_rows("move schedule on", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    const auto unchanged = TRY(is_unchanged(tx, fire.row));
    return unchanged ? store::set_next_fire(tx, name, in_us(fire.due.next_s)) : schema::Result<void>{};
  });
  if (!done)
    context.warn(fmt::format("schedule {} could not be moved on: {}", name, done.error().describe()));
}

void skip_fire(Context& context, const Fire& fire, const std::string& why, const std::string& reason) {
  const schema::EntryDraft entry{.kind = EvidenceKind::schedule_skipped,
                                 .subject = {.model = fire.row.model},
                                 .body = {{"why", why}, {"reason", schema::utf8_text(reason, 1'000)}}};
  auto done = context.commit_rows("skip schedule", [&](store::Tx& tx, Entries& entries) {
    return put_fire(context, tx, entries, fire, entry, {.outcome = "skipped", .why = why});
  });
  if (done) return;
  if (done.error().code == ErrorCode::already_exists) return move_on(context, fire);
  context.warn(fmt::format("schedule {} could not be skipped: {}", fire.row.name, done.error().describe()));
}

/// The promotion, its entry, and that of the fire time, in one transaction.
void request_by(Context& context, const Fire& fire, const schema::Result<CheckedRequest>& checked,
                const schema::Result<bool>& verified) {
  if (!verified) return skip_fire(context, fire, "refused", verified.error().describe());
  const AlsoRequested also = [&](store::Tx& tx, Entries& entries, const store::PromotionRow& promotion) {
    return put_fire(context, tx, entries, fire,
                    {.kind = EvidenceKind::schedule_fired,
                     .subject = subject_of(promotion, ""),
                     .body = {{"promotion", promotion.id}}},
                    {.outcome = "fired", .why = "on time", .promotion = promotion.id});
  };
  auto asked = checked ? request_promotion(context, actor_of(fire.row), *checked, *verified, also)
                       : schema::Result<std::string>(std::unexpected(checked.error()));
  if (asked) return;
  const auto& error = asked.error();
  if (error.code == ErrorCode::already_exists) return move_on(context, fire);
  if (may_pass(error.code))
    return context.warn(fmt::format("schedule {} is tried again: {}", fire.row.name, error.describe()));
  skip_fire(context, fire, "refused", error.describe());
}

}  // namespace

void ScheduledRequests::fire_due() {
  if (context_.now() < next_look_us_) return;
  next_look_us_ = context_.now() + kLookEveryUs;
  auto due = look_up(context_.world.store, store::due_schedules, context_.now(), kMaxDue);
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
  const Fire fire{row, schedule::decide_due(*cron, *zone, *row.next_us / kSecond, context_.now() / kSecond,
                                            policy, row.grace_s)};
  const auto skip = [&](const char* why, const std::string& reason) {
    skip_fire(context_, fire, why, reason);
  };
  if (!fire.due.run) {
    return skip("misfire", fmt::format("the daemon came {} s late, and the schedule's misfire policy is {}",
                                       context_.now() / kSecond - fire.due.fire_s, row.misfire));
  }
  if (const auto* blackout = context_.blackout_of(row.model))
    return skip("blackout", fmt::format("the blackout '{}' covers it", blackout->text));
  for (const auto& [id, live] : context_.promotions) {
    if (live->row.model != row.model || row.if_running != "skip") continue;
    return skip("running", fmt::format("promotion {} is {}", id, store::to_string(live->row.state)));
  }
  const auto withdrawn = look_up(context_.world.store, auth::is_withdrawn, row.owner, auth::Scope::promoter);
  if (!withdrawn)
    return context_.warn(
        fmt::format("schedule {} is tried again: {}", row.name, withdrawn.error().describe()));
  if (*withdrawn) {
    return skip("owner_revoked",
                fmt::format("the token of {}, who set it last, was revoked: someone who may set "
                            "schedules has to set it again or delete it",
                            row.owner));
  }
  auto request = parse_promotion_request(row.request);
  if (!request) return skip("refused", request.error().describe());
  firing_.insert(row.name);
  // Hashing a checkpoint may take minutes, so it is done on the helper thread.
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
      [this, answers, fire] {
        firing_.erase(fire.row.name);
        request_by(context_, fire, answers->checked, answers->verified);
      });
}

}  // namespace driftgate::pipeline
