#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A schedule, which requests a promotion at its times.
struct ScheduleRow {
  std::string name{};
  std::string cron{}, zone{};
  std::string model{};       ///< of the request
  std::string request{};     ///< JSON of the promotion as it is asked for
  std::string misfire{};     ///< "skip" or "run_once"
  std::int64_t grace_s = 0;  ///< how late run_once may be
  std::string if_running{};  ///< "skip" or "queue", while a promotion of the model is on its way
  bool paused = false;
  std::string owner{};  ///< who set it last; counts as requester of what it asks for
  std::int64_t created_us = 0, updated_us = 0;
  std::uint64_t revision = 1;  ///< grows with every change by a person: the ETag
  std::optional<std::int64_t> next_us{};
  std::uint64_t first_revision = 1;  ///< when it was made; lower ones were of a deleted one of its name
  bool operator==(const ScheduleRow&) const = default;
};

/// The revision of a schedule that is made now: 1, or the one after the last of a deleted schedule of its
/// name.
Result<std::uint64_t> first_revision_of(Reader& reader, std::string_view name);
/// `already_exists` for a known name.
Result<void> insert_schedule(Tx& tx, const ScheduleRow& row);
Result<std::optional<ScheduleRow>> find_schedule(Reader& reader, std::string_view name);
/// find_schedule, or `not_found` with a message for people.
Result<ScheduleRow> get_schedule(Reader& reader, std::string_view name);
/// Writes everything but name and created_us, and increases the revision. `conflict` when it was changed.
Result<void> update_schedule(Tx& tx, ScheduleRow& row);
/// `conflict` when it was changed meanwhile.
Result<void> delete_schedule(Tx& tx, std::string_view name, std::uint64_t revision);
/// By name, after `after`.
Result<std::vector<ScheduleRow>> list_schedules(Reader& reader, std::string_view after, std::int64_t limit);
/// Not paused and next_us ≤ now, the longest due first.
Result<std::vector<ScheduleRow>> due_schedules(Reader& reader, std::int64_t now_us, std::int64_t limit);
/// Only the next fire time; no revision.
Result<void> set_next_fire(Tx& tx, std::string_view name, std::optional<std::int64_t> next_us);

/// One fire time and its outcome. It covers the fire times from missed_from_us on to its own, which were
/// missed.
struct ScheduleFireRow {
  std::string schedule{};
  std::int64_t fire_us = 0;  ///< UTC
  std::string outcome{};     ///< "fired" or "skipped"
  std::string why{};         ///< one word
  std::optional<std::string> promotion{};
  std::string owner{};  ///< of the schedule then
  std::int64_t decided_us = 0;
  std::int64_t evidence_seq = 0;
  std::optional<std::string> reason{};           ///< in full; nothing of fires that an older version stored
  std::uint64_t revision = 1;                    ///< of the schedule then
  std::int64_t missed = 0;                       ///< earlier fire times that were due too and were dropped
  std::optional<std::int64_t> missed_from_us{};  ///< the first of them
  bool operator==(const ScheduleFireRow&) const = default;
};
/// `already_exists` when this fire time of the schedule was decided before.
Result<void> insert_schedule_fire(Tx& tx, const ScheduleFireRow& row);
/// The fires of the schedule as it was made last, newest first.
Result<std::vector<ScheduleFireRow>> list_schedule_fires(Reader& reader, const ScheduleRow& schedule,
                                                         std::int64_t limit);
/// All fires whose time, or the first time that they missed, is in [since_us, until_us), by time; at most
/// `limit`. With a name only those of this schedule.
Result<std::vector<ScheduleFireRow>> schedule_fires_between(Reader& reader, std::int64_t since_us,
                                                            std::int64_t until_us, std::int64_t limit,
                                                            std::string_view schedule = {});
/// Fires of times before `before_us` that were decided at `since_us` or later, or whose promotion ended then
/// or goes on; by time, at most `limit`.
Result<std::vector<ScheduleFireRow>> fires_settled_since(Reader& reader, std::int64_t before_us,
                                                         std::int64_t since_us, std::int64_t limit);
Result<std::optional<ScheduleFireRow>> find_fire_of(Reader& reader, std::string_view promotion);

/// A report that was put into the outbox.
struct ScheduleReportRow {
  std::int64_t report_us = 0;  ///< when it was due
  std::int64_t put_us = 0;     ///< what was decided or ended from then on is not in it
  bool operator==(const ScheduleReportRow&) const = default;
};
/// The newest report; nothing before the first.
Result<std::optional<ScheduleReportRow>> last_schedule_report(Reader& reader);
/// `already_exists` when this one was put before.
Result<void> insert_schedule_report(Tx& tx, std::int64_t report_us, std::int64_t since_us,
                                    std::int64_t put_us);

}  // namespace driftgate::store
