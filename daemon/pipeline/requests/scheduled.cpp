#include "daemon/pipeline/requests/scheduled.hpp"

#include <fmt/format.h>

#include "daemon/auth/tokens.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/requests/promotions.hpp"
#include "daemon/pipeline/requests/recipe.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/schedules.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;
using schema::EvidenceKind;
using store::PromotionState;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kLookEveryUs = kSecond;
constexpr std::int64_t kMaxDue = 1'000;     ///< schedules read in one look: all that there may be
constexpr std::size_t kDecidedAtOnce = 64;  ///< of them; the loop has other work too

std::optional<std::int64_t> in_us(const std::optional<std::int64_t>& seconds) {
  return seconds ? std::optional(*seconds * kSecond) : std::nullopt;
}

/// Errors that the next look may not meet.
bool may_pass(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::deadline_exceeded || code == ErrorCode::io ||
         code == ErrorCode::storage_full;
}

/// Why a fire time starts nothing: a word and the whole reason.
struct Obstacle {
  std::string why, reason;
};

/// What keeps a schedule from starting anything now, of what is in memory.
std::optional<Obstacle> obstacle_of(const Context& context, const store::ScheduleRow& row) {
  if (const auto* blackout = context.blackout_of(row.model))
    return Obstacle{"blackout", fmt::format("the blackout '{}' covers it", blackout->text)};
  for (const auto& [id, live] : context.promotions) {
    if (live->row.model != row.model || row.if_running != "skip") continue;
    return Obstacle{"running", fmt::format("promotion {} is {}", id, store::to_string(live->row.state))};
  }
  return std::nullopt;
}

/// The schedule is still what it was when it was found due.
schema::Result<bool> is_unchanged(store::Reader& reader, const store::ScheduleRow& row) {
  const auto stored = TRY(store::find_schedule(reader, row.name));
  return stored && stored->revision == row.revision && stored->next_us == row.next_us;
}

/// Stores what was decided and when the schedule fires next.
schema::Result<void> put_fire(store::Tx& tx, Entries& entries, const Fire& fire,
                              const schema::EntryDraft& entry) {
  const auto unchanged = TRY(is_unchanged(tx, fire.row));
  if (!unchanged)
    return schema::fail(ErrorCode::already_exists, fmt::format("schedule {} was changed", fire.row.name));
  const auto seq = TRY(entries.add(tx, entry));
  TRY(store::insert_schedule_fire(tx, fire_row(fire, entry, seq)));
  return store::set_next_fire(tx, fire.row.name, in_us(fire.due.next_s));
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

void skip_fire(Context& context, const Fire& fire, const Obstacle& obstacle) {
  const auto entry = skip_entry(fire, obstacle.why, obstacle.reason, context.now());
  auto done = context.commit_rows(
      "skip schedule", [&](store::Tx& tx, Entries& entries) { return put_fire(tx, entries, fire, entry); });
  if (done) return;
  if (done.error().code == ErrorCode::already_exists) return move_on(context, fire);
  context.warn(fmt::format("schedule {} could not be skipped: {}", fire.row.name, done.error().describe()));
}

}  // namespace

void ScheduledRequests::fire_due() {
  const auto now = context_.now();
  if (now < next_look_us_) return;
  next_look_us_ = now + kLookEveryUs;
  auto due = look_up(context_.world.store, store::due_schedules, now, kMaxDue);
  if (!due) return context_.warn(fmt::format("schedules cannot be read: {}", due.error().describe()));
  std::size_t decided = 0;
  for (const auto& row : *due) {
    if (firing_.contains(row.name)) continue;
    if (decided++ == kDecidedAtOnce) {
      next_look_us_ = now;  // the next round goes on
      return;
    }
    fire(row);
  }
}

/// What is tried again has to say later why it came too late.
void ScheduledRequests::try_again(const std::string& schedule, const schema::Error& error) {
  context_.warn(fmt::format("schedule {} is tried again: {}", schedule, error.describe()));
  delayed_.insert_or_assign(schedule, error.describe());
}

void ScheduledRequests::fire(const store::ScheduleRow& row) {
  auto decided = due_fire(row, context_.now());
  if (!decided)
    return context_.warn(fmt::format("schedule {} cannot be read: {}", row.name, decided.error().describe()));
  const Fire fire = std::move(*decided);
  const auto delayed = delayed_.extract(row.name);
  const auto skip = [&](const char* why, const std::string& reason) {
    skip_fire(context_, fire, {why, reason});
  };
  if (!fire.due.run) {
    const auto late_s = context_.now() / kSecond - fire.due.fire_s;
    return skip("misfire", delayed ? fmt::format("it could not be asked for within {} s, and the schedule's "
                                                 "misfire policy is {}: {}",
                                                 late_s, row.misfire, delayed.mapped())
                                   : fmt::format("the daemon came {} s late, and the schedule's misfire "
                                                 "policy is {}",
                                                 late_s, row.misfire));
  }
  if (const auto obstacle = obstacle_of(context_, row)) return skip_fire(context_, fire, *obstacle);
  const auto withdrawn = look_up(context_.world.store, auth::is_withdrawn, row.owner, auth::Scope::promoter);
  if (!withdrawn) return try_again(row.name, withdrawn.error());
  if (*withdrawn) {
    return skip("owner_revoked",
                fmt::format("the token of {}, who set it last, was revoked: someone who may set "
                            "schedules has to set it again or delete it",
                            row.owner));
  }
  firing_.insert(row.name);
  // Hashing a checkpoint may take minutes, so it is done on the helper thread.
  auto answers = std::make_shared<Answers>();
  context_.world.offload(
      [&world = context_.world, answers, actor = actor_of(row), asked = row.request] {
        // The recipe as it is at this fire time.
        const auto request = complete_text(world.store, asked);
        if (!request) {
          answers->checked = std::unexpected(request.error());
          return;
        }
        answers->checked = world.check(actor, *request);
        if (answers->checked) answers->verified = world.verify(answers->checked->engine);
      },
      [this, answers, fire] {
        firing_.erase(fire.row.name);
        request_by(fire, *answers);
      });
}

/// The promotion, its entry, and that of the fire time, in one transaction. While its request was checked
/// another one may have begun.
void ScheduledRequests::request_by(const Fire& fire, const Answers& answers) {
  const auto refuse = [&](const schema::Error& error) {
    skip_fire(context_, fire, {"refused", error.describe()});
  };
  const auto refuse_unless_it_passes = [&](const schema::Error& error) {
    return may_pass(error.code) ? try_again(fire.row.name, error) : refuse(error);
  };
  if (!answers.checked) return refuse_unless_it_passes(answers.checked.error());
  if (!answers.verified) return refuse_unless_it_passes(answers.verified.error());
  if (const auto obstacle = obstacle_of(context_, fire.row)) return skip_fire(context_, fire, *obstacle);
  const AlsoRequested also = [&](store::Tx& tx, Entries& entries, const store::PromotionRow& promotion) {
    return put_fire(
        tx, entries, fire,
        fire_entry(fire,
                   {.kind = EvidenceKind::schedule_fired,
                    .subject = subject_of(promotion, ""),
                    .body = {{"promotion", promotion.id}, {"why", fire.due.late ? "late" : "on time"}}},
                   context_.now()));
  };
  const auto asked =
      request_promotion(context_, actor_of(fire.row), *answers.checked, *answers.verified, also);
  if (asked) return;
  const auto& error = asked.error();
  if (error.code == ErrorCode::already_exists) return move_on(context_, fire);
  refuse_unless_it_passes(error);
}

}  // namespace driftgate::pipeline
