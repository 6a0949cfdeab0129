#include "daemon/store/registry/schedules.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

#define SCHEDULE_COLUMNS                                                                        \
  "name, cron, zone, model, request, misfire, grace_s, if_running, paused, owner, created_us, " \
  "updated_us, revision, next_us, first_revision"
#define FIRE_COLUMNS                                                                                \
  "schedule, fire_us, outcome, why, promotion, owner, decided_us, evidence_seq, reason, revision, " \
  "missed, missed_from_us"

constexpr Sql kInsert{"insert schedule",
                      "INSERT INTO schedules(" SCHEDULE_COLUMNS
                      ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"};
constexpr Sql kFind{"find schedule", "SELECT " SCHEDULE_COLUMNS " FROM schedules WHERE name = ?1"};
constexpr Sql kUpdate{
    "update schedule",
    "UPDATE schedules SET cron = ?3, zone = ?4, model = ?5, request = ?6, misfire = ?7, grace_s = ?8, "
    "if_running = ?9, paused = ?10, owner = ?11, updated_us = ?12, next_us = ?13, revision = revision + 1 "
    "WHERE name = ?1 AND revision = ?2"};
constexpr Sql kDelete{"delete schedule", "DELETE FROM schedules WHERE name = ?1 AND revision = ?2"};
constexpr Sql kList{"list schedules",
                    "SELECT " SCHEDULE_COLUMNS " FROM schedules WHERE name > ?1 ORDER BY name LIMIT ?2"};
constexpr Sql kDue{"due schedules",
                   "SELECT " SCHEDULE_COLUMNS
                   " FROM schedules WHERE paused = 0 AND next_us IS NOT NULL AND next_us <= ?1 "
                   "ORDER BY next_us LIMIT ?2"};
constexpr Sql kSetNext{"set next fire", "UPDATE schedules SET next_us = ?2 WHERE name = ?1"};
constexpr Sql kInsertFire{"insert schedule fire",
                          "INSERT INTO schedule_fires(" FIRE_COLUMNS
                          ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"};
constexpr Sql kListFires{"list schedule fires", "SELECT " FIRE_COLUMNS
                                                " FROM schedule_fires WHERE schedule = ?1 AND revision >= ?2 "
                                                "ORDER BY fire_us DESC LIMIT ?3"};
constexpr Sql kFiresBetween{"schedule fires between",
                            "SELECT " FIRE_COLUMNS
                            " FROM schedule_fires WHERE (fire_us >= ?1 AND fire_us < ?2) OR "
                            "(fire_us >= ?2 AND missed_from_us < ?2) ORDER BY fire_us, schedule LIMIT ?3"};
constexpr Sql kFiresOfBetween{
    "fires of schedule between",
    "SELECT " FIRE_COLUMNS
    " FROM schedule_fires WHERE schedule = ?4 AND ((fire_us >= ?1 AND fire_us < ?2) OR "
    "(fire_us >= ?2 AND missed_from_us < ?2)) ORDER BY fire_us LIMIT ?3"};
constexpr Sql kFiresSettled{
    "schedule fires settled since",
    "SELECT " FIRE_COLUMNS
    " FROM schedule_fires WHERE fire_us < ?1 AND rowid IN ("
    "SELECT rowid FROM schedule_fires WHERE decided_us >= ?2 UNION "
    "SELECT f.rowid FROM promotions p JOIN schedule_fires f ON f.promotion = p.id "
    "WHERE p.ended_us IS NULL OR p.ended_us >= ?2) ORDER BY fire_us, schedule LIMIT ?3"};
constexpr Sql kFindFire{"find fire of promotion",
                        "SELECT " FIRE_COLUMNS " FROM schedule_fires WHERE promotion = ?1"};

constexpr Sql kLastOfDeleted{"last revision of a deleted schedule",
                             "SELECT revision FROM deleted_schedules WHERE name = ?1"};
constexpr Sql kKeepRevision{"keep revision of schedule",
                            "INSERT INTO deleted_schedules(name, revision) VALUES(?1, ?2) "
                            "ON CONFLICT(name) DO UPDATE SET revision = max(revision, excluded.revision)"};
constexpr Sql kLastReport{"last schedule report",
                          "SELECT report_us, put_us FROM schedule_reports ORDER BY report_us DESC LIMIT 1"};
constexpr Sql kInsertReport{"insert schedule report",
                            "INSERT INTO schedule_reports(report_us, since_us, put_us) VALUES(?1, ?2, ?3)"};

#undef SCHEDULE_COLUMNS
#undef FIRE_COLUMNS

std::string changed_meanwhile(std::string_view name) {
  return fmt::format("schedule '{}' was changed meanwhile: read it again", name);
}

}  // namespace

Result<std::uint64_t> first_revision_of(Reader& reader, std::string_view name) {
  const auto last = TRY(find_row<std::uint64_t>(reader, kLastOfDeleted, {name}));
  return last.value_or(0) + 1;
}

Result<void> insert_schedule(Tx& tx, const ScheduleRow& s) {
  return explain(tx.run(kInsert, {s.name, s.cron, s.zone, s.model, s.request, s.misfire, s.grace_s,
                                  s.if_running, s.paused, s.owner, s.created_us, s.updated_us, s.revision,
                                  s.next_us, s.first_revision}),
                 fmt::format("schedule '{}' cannot be stored", s.name));
}

Result<std::optional<ScheduleRow>> find_schedule(Reader& reader, std::string_view name) {
  return find_row<ScheduleRow>(reader, kFind, {name});
}

Result<ScheduleRow> get_schedule(Reader& reader, std::string_view name) {
  return must_exist(find_schedule(reader, name),
                    fmt::format("there is no schedule '{}': 'driftgate schedule list' lists them", name));
}

Result<void> update_schedule(Tx& tx, ScheduleRow& s) {
  auto done =
      must_change(tx.run(kUpdate, {s.name, s.revision, s.cron, s.zone, s.model, s.request, s.misfire,
                                   s.grace_s, s.if_running, s.paused, s.owner, s.updated_us, s.next_us}),
                  ErrorCode::conflict, changed_meanwhile(s.name));
  if (done) ++s.revision;
  return done;
}

Result<void> delete_schedule(Tx& tx, std::string_view name, std::uint64_t revision) {
  TRY(must_change(tx.run(kDelete, {name, revision}), ErrorCode::conflict, changed_meanwhile(name)));
  TRY(tx.run(kKeepRevision, {name, revision}));
  return {};
}

Result<std::vector<ScheduleRow>> list_schedules(Reader& reader, std::string_view after, std::int64_t limit) {
  return list_rows<ScheduleRow>(reader, kList, {after, limit});
}

Result<std::vector<ScheduleRow>> due_schedules(Reader& reader, std::int64_t now_us, std::int64_t limit) {
  return list_rows<ScheduleRow>(reader, kDue, {now_us, limit});
}

Result<void> set_next_fire(Tx& tx, std::string_view name, std::optional<std::int64_t> next_us) {
  TRY(tx.run(kSetNext, {name, next_us}));
  return {};
}

Result<void> insert_schedule_fire(Tx& tx, const ScheduleFireRow& f) {
  return explain(
      tx.run(kInsertFire, {f.schedule, f.fire_us, f.outcome, f.why, f.promotion, f.owner, f.decided_us,
                           f.evidence_seq, f.reason, f.revision, f.missed, f.missed_from_us}),
      fmt::format("the fire time {} of schedule '{}' cannot be stored", f.fire_us, f.schedule));
}

Result<std::vector<ScheduleFireRow>> list_schedule_fires(Reader& reader, const ScheduleRow& schedule,
                                                         std::int64_t limit) {
  return list_rows<ScheduleFireRow>(reader, kListFires, {schedule.name, schedule.first_revision, limit});
}

Result<std::vector<ScheduleFireRow>> schedule_fires_between(Reader& reader, std::int64_t since_us,
                                                            std::int64_t until_us, std::int64_t limit,
                                                            std::string_view schedule) {
  if (!schedule.empty())
    return list_rows<ScheduleFireRow>(reader, kFiresOfBetween, {since_us, until_us, limit, schedule});
  return list_rows<ScheduleFireRow>(reader, kFiresBetween, {since_us, until_us, limit});
}

Result<std::optional<ScheduleFireRow>> find_fire_of(Reader& reader, std::string_view promotion) {
  return find_row<ScheduleFireRow>(reader, kFindFire, {promotion});
}

Result<std::vector<ScheduleFireRow>> fires_settled_since(Reader& reader, std::int64_t before_us,
                                                         std::int64_t since_us, std::int64_t limit) {
  return list_rows<ScheduleFireRow>(reader, kFiresSettled, {before_us, since_us, limit});
}

Result<std::optional<ScheduleReportRow>> last_schedule_report(Reader& reader) {
  return find_row<ScheduleReportRow>(reader, kLastReport, {});
}

Result<void> insert_schedule_report(Tx& tx, std::int64_t report_us, std::int64_t since_us,
                                    std::int64_t put_us) {
  return explain(tx.run(kInsertReport, {report_us, since_us, put_us}),
                 fmt::format("the report due at {} cannot be stored", report_us));
}

}  // namespace driftgate::store
