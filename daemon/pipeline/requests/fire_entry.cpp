#include "daemon/pipeline/requests/fire_entry.hpp"

#include "daemon/base/entry_members.hpp"
#include "schema/utf8.hpp"

namespace driftgate::pipeline {
namespace {

using schema::EvidenceKind;

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::size_t kMaxReasonBytes = 1'000;

}  // namespace

schema::Result<Fire> due_fire(const store::ScheduleRow& row, std::int64_t now_us) {
  const auto cron = TRY(schedule::parse_cron(row.cron));
  const auto zone = TRY(schedule::Zone::find(row.zone));
  const auto policy = row.misfire == "run_once" ? schedule::Misfire::run_once : schedule::Misfire::skip;
  return Fire{row, schedule::decide_due(cron, zone, row.next_us.value_or(now_us) / kSecond, now_us / kSecond,
                                        policy, row.grace_s)};
}

std::string actor_of(const store::ScheduleRow& row) {
  return "schedule/" + row.name;
}

schema::EntryDraft fire_entry(const Fire& fire, schema::EntryDraft draft, std::int64_t now_us) {
  const auto& [row, due] = fire;
  draft.time_us = now_us;
  draft.actor = actor_of(row);
  schema::EntryValue::Object body{{"schedule", row.name},
                                  {"revision", row.revision},
                                  {"cron", row.cron},
                                  {"timezone", row.zone},
                                  {"owner", row.owner},
                                  {"fire_us", due.fire_s * kSecond},
                                  {"late_ms", (now_us - due.fire_s * kSecond) / 1'000},
                                  {"missed", due.missed}};
  if (due.missed > 0) body.insert_or_assign("missed_from_us", *row.next_us);
  draft.body.merge(body);
  return draft;
}

schema::EntryDraft skip_entry(const Fire& fire, const std::string& why, const std::string& reason,
                              std::int64_t now_us) {
  return fire_entry(fire,
                    {.kind = EvidenceKind::schedule_skipped,
                     .subject = {.model = fire.row.model},
                     .body = {{"why", why}, {"reason", schema::utf8_text(reason, kMaxReasonBytes)}}},
                    now_us);
}

store::ScheduleFireRow fire_row(const Fire& fire, const schema::EntryDraft& entry, std::int64_t seq) {
  const bool fired = entry.kind == EvidenceKind::schedule_fired;
  store::ScheduleFireRow row{.schedule = fire.row.name,
                             .fire_us = fire.due.fire_s * kSecond,
                             .outcome = fired ? "fired" : "skipped",
                             .why = base::text_at(entry.body, "why"),
                             .owner = fire.row.owner,
                             .decided_us = entry.time_us,
                             .evidence_seq = seq,
                             .revision = fire.row.revision,
                             .missed = fire.due.missed};
  if (fired) row.promotion = base::text_at(entry.body, "promotion");
  if (!fired) row.reason = base::text_at(entry.body, "reason");
  if (row.missed > 0) row.missed_from_us = fire.row.next_us;
  return row;
}

}  // namespace driftgate::pipeline
