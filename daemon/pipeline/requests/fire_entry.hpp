#pragma once

#include <cstdint>
#include <string>

#include "daemon/schedule/misfire.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::pipeline {

/// A schedule, and the fire time of it that is decided.
struct Fire {
  store::ScheduleRow row;
  schedule::DueFire due;
};

/// The fire time of a schedule that is due (`row.next_us` is not after `now_us`). Errors of an expression or
/// a zone that cannot be read any more.
[[nodiscard]] schema::Result<Fire> due_fire(const store::ScheduleRow& row, std::int64_t now_us);

/// The actor of what a schedule does.
[[nodiscard]] std::string actor_of(const store::ScheduleRow& row);

/// The entry of a fire time, `kind` schedule_fired or schedule_skipped, with what `draft` has already.
[[nodiscard]] schema::EntryDraft fire_entry(const Fire& fire, schema::EntryDraft draft, std::int64_t now_us);
/// The entry of one that started nothing: one word and the whole reason, which is cut to what is kept.
[[nodiscard]] schema::EntryDraft skip_entry(const Fire& fire, const std::string& why,
                                            const std::string& reason, std::int64_t now_us);
/// The row of a fire time beside its entry of number `seq`.
[[nodiscard]] store::ScheduleFireRow fire_row(const Fire& fire, const schema::EntryDraft& entry,
                                              std::int64_t seq);

}  // namespace driftgate::pipeline
