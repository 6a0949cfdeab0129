#include <fmt/format.h>

#include <map>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/store/promotions/blocks.hpp"
#include "daemon/store/registry/schedules.hpp"

namespace driftgate::evidence::tables {

using schema::EvidenceKind;
using store::Row;
using store::Sql;

namespace {

constexpr std::int64_t kRows = 256;

constexpr Sql kFire{"fire of an entry",
                    "SELECT schedule, fire_us, outcome, why, promotion, owner FROM schedule_fires WHERE "
                    "schedule = ?1 AND fire_us = ?2 AND evidence_seq = ?3"};
constexpr Sql kFires{"fires after a row",
                     "SELECT rowid, schedule, fire_us, evidence_seq FROM schedule_fires WHERE rowid > ?1 "
                     "ORDER BY rowid LIMIT ?2"};

struct Blocked {
  LogEntry set{};
  std::optional<LogEntry> lifted{};
};

Result<std::map<std::string, Blocked>> blocks_of(LogView& log) {
  std::map<std::string, Blocked> blocks;
  for (const auto kind : {EvidenceKind::block_set, EvidenceKind::block_lifted}) {
    EntryFilter filter;
    filter.kind = kind;
    TRY(log.each(filter, [&](const LogEntry& entry) {
      auto& block = blocks[text_at(entry.body, "block")];
      if (kind == EvidenceKind::block_set) {
        block.set = entry;
      } else {
        block.lifted = entry;
      }
      return true;
    }));
  }
  return blocks;
}

void compare_block(Findings& findings, const store::BlockRow& row, const Blocked& block) {
  const auto where = fmt::format("block {}", row.id);
  findings.column(where, "the checkpoint", row.checkpoint, text_at(block.set.subject, "checkpoint"), block.set);
  findings.column(where, "the contract", row.contract, text_at(block.set.subject, "contract"), block.set);
  findings.column(where, "the promotion", row.promotion, text_at(block.set.subject, "promotion"), block.set);
  findings.member(where, "the kernel", row.kernel, block.set, "kernel");
  findings.member(where, "the reason", row.reason, block.set, "reason");
  const auto& last = block.lifted ? *block.lifted : block.set;
  findings.column(where, "the entry of its last change", row.evidence_seq, last.seq, last);
  if (row.lifted_us && !block.lifted)
    findings.add(where, "it is lifted in the table, but no entry of the log lifted it");
  if (!block.lifted) return;
  if (!row.lifted_us) findings.add(where, fmt::format("the table has it in force, but {} lifted it", last.name()));
  findings.column(where, "who lifted it", row.lifted_by, last.actor, last);
  findings.member(where, "why it was lifted", row.lift_reason, last, "reason");
}

void compare_schedule(Findings& findings, const store::ScheduleRow& row, const LogEntry& entry) {
  const auto where = fmt::format("schedule '{}'", row.name);
  findings.column(where, "the model", row.model, text_at(entry.subject, "model"), entry);
  findings.member(where, "the revision", static_cast<std::int64_t>(row.revision), entry, "revision");
  findings.member(where, "when it fires", row.cron, entry, "cron");
  findings.member(where, "the time zone", row.zone, entry, "timezone");
  findings.member(where, "what is done about misfires", row.misfire, entry, "misfire");
  findings.member(where, "the grace", row.grace_s, entry, "grace_s");
  findings.member(where, "what is done while one runs", row.if_running, entry, "if_running");
  findings.member(where, "the owner", row.owner, entry, "owner");
  findings.column(where, "whether it is paused", row.paused ? 1 : 0,
                  entry.body.value("paused", false) ? 1 : 0, entry);
  if (entry.body.contains("request"))
    findings.document(where, "the request", row.request, entry.body["request"], entry);
}

}  // namespace

Result<void> check_blocks(LogView& log) {
  auto blocks = TRY(blocks_of(log));
  std::string after;
  for (bool more = true; more;) {
    auto rows = TRY(store::list_blocks(log.reader(), after, kRows));
    for (const auto& row : rows) {
      const auto found = blocks.find(row.id);
      if (found == blocks.end()) {
        log.findings().add(fmt::format("block {}", row.id), "it is in the table, but no entry of the log set it");
        continue;
      }
      compare_block(log.findings(), row, found->second);
      blocks.erase(found);
    }
    more = !rows.empty();
    if (more) after = rows.back().id;
  }
  for (const auto& [id, block] : blocks)
    log.findings().add(fmt::format("block {}", id),
                       fmt::format("it is not in the table, but {} set it", block.set.name()));
  return {};
}

Result<void> check_schedules(LogView& log) {
  std::map<std::string, LogEntry> newest;
  EntryFilter filter;
  filter.kinds = {EvidenceKind::schedule_set, EvidenceKind::schedule_deleted};
  auto read = log.each(filter, [&](const LogEntry& entry) {
    const auto name = text_at(entry.body, "schedule");
    if (entry.kind == "schedule_set") {
      newest.insert_or_assign(name, entry);
    } else {
      newest.erase(name);
    }
    return true;
  });
  if (!read) return read;
  std::string after;
  for (bool more = true; more;) {
    auto rows = TRY(store::list_schedules(log.reader(), after, kRows));
    for (const auto& row : rows) {
      const auto found = newest.find(row.name);
      if (found == newest.end()) {
        log.findings().add(fmt::format("schedule '{}'", row.name),
                           "it is in the table, but the log has none of that name");
        continue;
      }
      compare_schedule(log.findings(), row, found->second);
      newest.erase(found);
    }
    more = !rows.empty();
    if (more) after = rows.back().name;
  }
  for (const auto& [name, entry] : newest)
    log.findings().add(fmt::format("schedule '{}'", name),
                       fmt::format("it is not in the table, but {} set it", entry.name()));
  return {};
}

Result<bool> check_fires(LogView& log, std::int64_t& after) {
  bool any = false;
  Result<void> read;
  auto done = log.reader().each(kFires, {after, kRows}, [&](const Row& row) {
    any = true;
    after = row.integer(0);
    const auto where = fmt::format("fire of schedule '{}' at {}", row.text(1), row.integer(2));
    auto entry = log.at(row.integer(3));
    if (!entry) {
      read = std::unexpected(std::move(entry.error()));
      return false;
    }
    const bool about = *entry && ((*entry)->kind == "schedule_fired" || (*entry)->kind == "schedule_skipped") &&
                       text_at((*entry)->body, "schedule") == row.text(1) &&
                       (*entry)->body.value("fire_us", std::int64_t{-1}) == row.integer(2);
    if (!about) log.findings().add(where, fmt::format("entry {} does not say it", row.integer(3)));
    return true;
  });
  if (done && !read) done = read;
  if (!done) return std::unexpected(std::move(done.error()));
  return any;
}

Result<bool> check_fire_entries(LogView& log, std::int64_t& after) {
  EntryFilter filter;
  filter.kinds = {EvidenceKind::schedule_fired, EvidenceKind::schedule_skipped};
  if (after >= 0) filter.cursor = after;
  int left = static_cast<int>(kRows);
  Result<void> read;
  auto done = log.each(filter, [&](const LogEntry& entry) {
    after = entry.seq;
    const auto schedule = text_at(entry.body, "schedule");
    const auto fire_us = entry.body.value("fire_us", std::int64_t{-1});
    const auto where = fmt::format("fire of schedule '{}' at {}", schedule, fire_us);
    auto& findings = log.findings();
    auto found = log.reader().one(kFire, {schedule, fire_us, entry.seq}, [&](const Row& row) {
      const bool fired = entry.kind == "schedule_fired";
      findings.column(where, "what came of it", row.text(2), fired ? "fired" : "skipped", entry);
      findings.member(where, "why", row.text(3), entry, "why");
      findings.column(where, "the promotion", row.text(4), fired ? text_at(entry.subject, "promotion") : "", entry);
      findings.member(where, "the owner", row.text(5), entry, "owner");
      return true;
    });
    if (!found) read = std::unexpected(std::move(found.error()));
    if (found && !*found)
      findings.add(where, fmt::format("it is not in the table, but {} recorded it", entry.name()));
    return read.has_value() && --left > 0;
  });
  if (done && !read) done = read;
  if (!done) return std::unexpected(std::move(done.error()));
  return left == 0;
}

}  // namespace driftgate::evidence::tables
