#include <fmt/format.h>

#include <utility>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/evidence/tables/recorded.hpp"
#include "daemon/store/promotions/blocks.hpp"
#include "daemon/store/registry/recipes.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/json.hpp"

namespace driftgate::evidence::tables {

using schema::EvidenceKind;
using store::Sql;

namespace {

constexpr Sql kFire{
    "fire of an entry",
    "SELECT schedule, fire_us, outcome, why, promotion, owner, decided_us, evidence_seq, reason, "
    "revision, missed, missed_from_us "
    "FROM schedule_fires WHERE schedule = ?1 AND fire_us = ?2 AND evidence_seq = ?3"};
constexpr Sql kFires{"fires after a row",
                     "SELECT rowid, schedule, fire_us, evidence_seq FROM schedule_fires WHERE rowid > ?1 "
                     "ORDER BY rowid LIMIT ?2"};

struct StoredFire {
  std::int64_t rowid = 0;
  std::string schedule{};
  std::int64_t fire_us = 0, evidence_seq = 0;
};

Result<void> compare_block(Findings& findings, const store::BlockRow& row, const Recorded& block) {
  const auto where = fmt::format("block {}", row.id);
  RowCheck set(findings, where, block.made);
  set.subject("the checkpoint", row.checkpoint, "checkpoint");
  set.subject("the contract", row.contract, "contract");
  set.subject("the promotion", row.promotion, "promotion");
  set.member("the kernel", row.kernel, "kernel");
  set.member("the reason", row.reason, "reason");
  const auto& last = block.ended ? *block.ended : block.made;
  RowCheck lifted(findings, where, last);
  lifted.column("the entry of its last change", row.evidence_seq, last.seq);
  if (row.lifted_us && !block.ended)
    findings.add(where, "it is lifted in the table, but no entry of the log lifted it");
  if (!block.ended) return {};
  if (!row.lifted_us) findings.add(where, fmt::format("the table has it in force, but {} lifted it", last.name()));
  lifted.column("who lifted it", row.lifted_by, last.actor);
  lifted.member("why it was lifted", row.lift_reason, "reason");
  return {};
}

Result<void> compare_schedule(Findings& findings, const store::ScheduleRow& row, const LogEntry& entry) {
  RowCheck check(findings, fmt::format("schedule '{}'", row.name), entry);
  check.subject("the model", row.model, "model");
  check.member("the revision", static_cast<std::int64_t>(row.revision), "revision");
  check.member("when it fires", row.cron, "cron");
  check.member("the time zone", row.zone, "timezone");
  check.member("what is done about misfires", row.misfire, "misfire");
  check.member("the grace", row.grace_s, "grace_s");
  check.member("what is done while one runs", row.if_running, "if_running");
  check.member("the owner", row.owner, "owner");
  check.column("whether it is paused", row.paused ? 1 : 0, entry.body.value("paused", false) ? 1 : 0);
  check.document_member("the request", row.request, "request");
  return {};
}

Result<void> compare_recipe(Findings& findings, const store::RecipeRow& row, const LogEntry& entry) {
  RowCheck check(findings, fmt::format("recipe of '{}'", row.model), entry);
  check.column("its entry", row.evidence_seq, entry.seq);
  check.subject("the model", row.model, "model");
  check.member("the revision", static_cast<std::int64_t>(row.revision), "revision");
  check.member("the digest", row.digest, "digest");
  check.member("the digest of its document", schema::document_digest(*row.document), "digest");
  check.column("who set it", row.set_by, entry.actor);
  return {};
}

std::string fire_text(std::string_view schedule, std::int64_t fire_us) {
  return fmt::format("fire of schedule '{}' at {}", schedule, fire_us);
}

}  // namespace

Result<void> check_blocks(LogView& log) {
  auto blocks = TRY(recorded_rows(log, EvidenceKind::block_set, EvidenceKind::block_lifted, "block"));
  return compare_rows(
      log, std::move(blocks), store::list_blocks, &store::BlockRow::id,
      [](const std::string& id) { return fmt::format("block {}", id); }, "set",
      [&](const store::BlockRow& row, const Recorded& block) {
        return compare_block(log.findings(), row, block);
      });
}

Result<void> check_schedules(LogView& log) {
  auto schedules =
      TRY(recorded_rows(log, EvidenceKind::schedule_set, EvidenceKind::schedule_deleted, "schedule"));
  std::erase_if(schedules, [](const auto& schedule) { return schedule.second.ended.has_value(); });
  return compare_rows(
      log, std::move(schedules), store::list_schedules, &store::ScheduleRow::name,
      [](const std::string& name) { return fmt::format("schedule '{}'", name); }, "set",
      [&](const store::ScheduleRow& row, const Recorded& schedule) {
        return compare_schedule(log.findings(), row, schedule.made);
      });
}

Result<void> check_recipes(LogView& log) {
  auto recipes = TRY(recorded_rows(log, EvidenceKind::recipe_set, EvidenceKind::recipe_deleted, "model"));
  std::erase_if(recipes, [](const auto& recipe) { return recipe.second.ended.has_value(); });
  return compare_rows(
      log, std::move(recipes), store::list_recipes, &store::RecipeRow::model,
      [](const std::string& model) { return fmt::format("recipe of '{}'", model); }, "set",
      [&](const store::RecipeRow& row, const Recorded& recipe) {
        return compare_recipe(log.findings(), row, recipe.made);
      });
}

Result<bool> check_fires(LogView& log, std::int64_t& after) {
  const auto fires = TRY(list_rows<StoredFire>(log.reader(), kFires, {after, kRowsAtOnce}));
  for (const StoredFire& fire : fires) {
    after = fire.rowid;
    const auto entry = TRY(log.at(fire.evidence_seq));
    const bool about = entry && (entry->kind == "schedule_fired" || entry->kind == "schedule_skipped") &&
                       text_at(entry->body, "schedule") == fire.schedule &&
                       integer_at(entry->body, "fire_us", -1) == fire.fire_us;
    if (about) continue;
    log.findings().add(fire_text(fire.schedule, fire.fire_us),
                       fmt::format("entry {} does not say it", fire.evidence_seq));
  }
  return !fires.empty();
}

Result<bool> check_fire_entries(LogView& log, std::int64_t& after) {
  EntryFilter filter{.kinds = {EvidenceKind::schedule_fired, EvidenceKind::schedule_skipped}};
  if (after >= 0) filter.cursor = after;
  auto left = kRowsAtOnce;
  TRY(log.each(filter, [&](const LogEntry& entry) -> Result<bool> {
    after = entry.seq;
    const auto schedule = text_at(entry.body, "schedule");
    const auto fire_us = integer_at(entry.body, "fire_us", -1);
    const auto where = fire_text(schedule, fire_us);
    const auto row =
        TRY(find_row<store::ScheduleFireRow>(log.reader(), kFire, {schedule, fire_us, entry.seq}));
    if (row) {
      const bool fired = entry.kind == "schedule_fired";
      RowCheck check(log.findings(), where, entry);
      check.column("what came of it", row->outcome, fired ? "fired" : "skipped");
      check.member("why", row->why, "why");
      check.column("the promotion", row->promotion.value_or(""),
                   fired ? text_at(entry.subject, "promotion") : "");
      check.member("the owner", row->owner, "owner");
      // Of rows without a reason an older version of the program kept the word alone.
      if (row->reason) check.member("the reason", *row->reason, "reason");
      if (row->missed > 0) check.member("how many times were missed", row->missed, "missed");
    } else {
      log.findings().add(where, fmt::format("it is not in the table, but {} recorded it", entry.name()));
    }
    return --left > 0;
  }));
  return left == 0;
}

}  // namespace driftgate::evidence::tables
