#include "daemon/store/promotions/stage_runs.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert stage run",
    "INSERT INTO stage_runs(promotion, stage, attempt, state, started_us, planned_end_us, ended_us, "
    "watermark, step, step_started_us, progress, report) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"};
constexpr Sql kUpdate{
    "update stage run",
    "UPDATE stage_runs SET state = ?4, planned_end_us = ?5, ended_us = ?6, watermark = ?7, step = ?8, "
    "step_started_us = ?9, progress = ?10, report = ?11 "
    "WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3 AND state = 'running'"};
constexpr Sql kFind{
    "find stage run",
    "SELECT promotion, stage, attempt, state, started_us, planned_end_us, ended_us, watermark, step, "
    "step_started_us, progress, report FROM stage_runs "
    "WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3"};
constexpr Sql kList{
    "list stage runs",
    "SELECT promotion, stage, attempt, state, started_us, planned_end_us, ended_us, watermark, step, "
    "step_started_us, progress, report FROM stage_runs WHERE promotion = ?1 ORDER BY rowid"};

}  // namespace

Result<void> insert_stage_run(Tx& tx, const StageRunRow& run) {
  return explain(tx.run(kInsert, {run.key.promotion, run.key.stage, run.key.attempt, to_string(run.state),
                                  run.started_us, run.planned_end_us, run.ended_us, run.watermark, run.step,
                                  run.step_started_us, run.progress, run.report}),
                 fmt::format("cannot begin stage run {}", run.key.text()));
}

Result<void> update_stage_run(Tx& tx, const StageRunRow& run) {
  auto changed = tx.run(
      kUpdate, {run.key.promotion, run.key.stage, run.key.attempt, to_string(run.state), run.planned_end_us,
                run.ended_us, run.watermark, run.step, run.step_started_us, run.progress, run.report});
  if (!changed || *changed > 0) return explain(changed, "cannot update stage run " + run.key.text());
  auto stored =
      TRY(must_exist(find_stage_run(tx, run.key), fmt::format("there is no stage run {}", run.key.text())));
  return schema::failf(ErrorCode::conflict, "stage run {} has ended ({})", run.key.text(),
                       to_string(stored.state));
}

Result<std::optional<StageRunRow>> find_stage_run(Reader& reader, const StageKey& key) {
  return find_row<StageRunRow>(reader, kFind, {key.promotion, key.stage, key.attempt});
}

Result<std::vector<StageRunRow>> list_stage_runs(Reader& reader, std::string_view promotion) {
  return list_rows<StageRunRow>(reader, kList, {promotion});
}

}  // namespace driftgate::store
