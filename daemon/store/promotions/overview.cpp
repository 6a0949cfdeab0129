#include "daemon/store/promotions/overview.hpp"

#include "daemon/store/promotions/of_many.hpp"
#include "daemon/store/promotions/promotion_columns.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

// The models of the only parameter.
#define MODELS "(SELECT value FROM json_each(?1))"

constexpr Sql kModels{"models by name",
                      "SELECT name, incumbent, epoch, lock_owner, hold, held_by, hold_promotion, hold_us, "
                      "created_us, updated_us, revision, evidence_seq FROM models "
                      "WHERE name > ?1 AND (?2 IS NULL OR instr(lower(name), ?2)) ORDER BY name LIMIT ?3"};
constexpr Sql kOpen{"open promotions of models",
                    "SELECT " DRIFTGATE_PROMOTION_COLUMNS
                    " FROM promotions INDEXED BY promotions_open_by_model WHERE model IN " MODELS
                    " AND " DRIFTGATE_OPEN_STATES " ORDER BY id"};
constexpr Sql kLastEnded{
    "last ended promotions of models",
    "SELECT " DRIFTGATE_PROMOTION_COLUMNS
    " FROM promotions WHERE id IN (SELECT (SELECT id FROM promotions AS ended INDEXED BY "
    "promotions_ended_by_model WHERE ended.model = named.value AND ended_us IS NOT NULL "
    "ORDER BY ended_us DESC LIMIT 1) FROM json_each(?1) AS named)"};
constexpr Sql kSchedules{
    "schedules of models",
    "SELECT name, cron, zone, model, request, misfire, grace_s, if_running, paused, owner, "
    "created_us, updated_us, revision, next_us, first_revision FROM schedules INDEXED BY schedules_by_model "
    "WHERE model IN " MODELS " ORDER BY name"};
constexpr Sql kLastFires{
    "last fires of models",
    "SELECT schedule, fire_us, outcome, why, promotion, fired.owner, decided_us, evidence_seq, reason, "
    "fired.revision, missed, missed_from_us "
    "FROM schedules JOIN schedule_fires AS fired ON fired.schedule = schedules.name "
    "WHERE model IN " MODELS
    " AND fire_us = (SELECT max(fire_us) FROM schedule_fires AS other "
    "WHERE other.schedule = schedules.name AND other.revision >= schedules.first_revision)"};
// Of the bare columns SQLite takes those of the row that has the maximum.
constexpr Sql kGuards{
    "guards of models",
    "SELECT model, armed, alarms FROM (SELECT model, ended_us IS NULL AS armed, alarms, max(ordinal) "
    "FROM guards INDEXED BY guards_by_model WHERE model IN " MODELS " GROUP BY model)"};
constexpr Sql kCounts{
    "overview counts",
    "SELECT (SELECT count(*) FROM models), "
    "(SELECT count(*) FROM promotions INDEXED BY promotions_open WHERE " DRIFTGATE_OPEN_STATES
    "), (SELECT count(*) FROM promotions INDEXED BY promotions_needing "
    "WHERE " DRIFTGATE_NEEDING_STATES
    "), (SELECT count(*) FROM models INDEXED BY models_held WHERE hold IS NOT NULL), "
    "(SELECT count(*) FROM guards INDEXED BY guards_one_armed WHERE ended_us IS NULL AND alarms > 0)"};

#undef MODELS

template <typename T>
Result<std::vector<T>> rows_of(Reader& reader, const Sql& sql, std::span<const std::string> models) {
  if (models.empty()) return std::vector<T>();
  const std::string list = key_list(models);
  return list_rows<T>(reader, sql, {list});
}

}  // namespace

Result<std::vector<ModelRow>> models_by_name(Reader& reader, std::string_view after,
                                             const std::optional<std::string>& text, std::int64_t limit) {
  return list_rows<ModelRow>(reader, kModels, {after, text, limit});
}
Result<std::vector<PromotionRow>> open_promotions_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<PromotionRow>(reader, kOpen, models);
}
Result<std::vector<PromotionRow>> last_ended_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<PromotionRow>(reader, kLastEnded, models);
}
Result<std::vector<ScheduleRow>> schedules_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<ScheduleRow>(reader, kSchedules, models);
}
Result<std::vector<ScheduleFireRow>> last_fires_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<ScheduleFireRow>(reader, kLastFires, models);
}
Result<std::vector<GuardMark>> guard_marks_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<GuardMark>(reader, kGuards, models);
}

Result<OverviewCounts> overview_counts(Reader& reader) {
  const auto counts = TRY(find_row<OverviewCounts>(reader, kCounts, {}));
  return counts.value_or(OverviewCounts{});
}

}  // namespace driftgate::store
