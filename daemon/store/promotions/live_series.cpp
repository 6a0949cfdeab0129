#include "daemon/store/promotions/live_series.hpp"

#include <algorithm>

#include "daemon/store/sqlite/rows.hpp"
#include "schema/sha256.hpp"

namespace driftgate::store {

namespace {

constexpr std::size_t kKeyBytes = 16;  // hex digits of a list's digest: a run has few lists

constexpr Sql kFindRun{
    "find live run",
    "SELECT id, given, stride, requests_candidate, requests_incumbent, failures_candidate, "
    "failures_incumbent FROM live_runs WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3"};
constexpr Sql kInsertRun{
    "insert live run",
    "INSERT INTO live_runs(promotion, stage, attempt, given, stride, requests_candidate, "
    "requests_incumbent, failures_candidate, failures_incumbent) "
    "VALUES(?1, ?2, ?3, 0, 1, 0, 0, 0, 0)"};
constexpr Sql kUpdateRun{
    "update live run",
    "UPDATE live_runs SET given = ?2, stride = ?3, requests_candidate = ?4, "
    "requests_incumbent = ?5, failures_candidate = ?6, failures_incumbent = ?7 WHERE id = ?1"};
constexpr Sql kInsertPoint{
    "insert live point",
    "INSERT INTO live_points(run, number, time_us, requests_candidate, requests_incumbent, "
    "failures_candidate, failures_incumbent, clauses, body) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"};
constexpr Sql kDeletePoint{"delete live point", "DELETE FROM live_points WHERE run = ?1 AND number = ?2"};
constexpr Sql kThin{"thin live points",
                    "DELETE FROM live_points WHERE run = ?1 AND number % ?2 <> 0 AND number <> ?3"};
constexpr Sql kInsertClauses{"insert live clauses",
                             "INSERT INTO live_clauses(run, key, list) VALUES(?1, ?2, ?3) "
                             "ON CONFLICT(run, key) DO NOTHING"};
constexpr Sql kDropClauses{"drop unused live clauses",
                           "DELETE FROM live_clauses WHERE run = ?1 AND key NOT IN "
                           "(SELECT clauses FROM live_points WHERE run = ?1)"};
constexpr Sql kListPoints{
    "list live points",
    "SELECT number, time_us, requests_candidate, requests_incumbent, failures_candidate, failures_incumbent, "
    "clauses, body FROM live_points WHERE run = ?1 ORDER BY number DESC LIMIT ?2"};
constexpr Sql kListClauses{"list live clauses",
                           "SELECT key, list FROM live_clauses WHERE run = ?1 ORDER BY rowid"};

struct RunRow {
  std::int64_t id = 0, given = 0, stride = 1;
  LiveCounts counts{};
};

Result<std::optional<RunRow>> find_run(Reader& reader, const StageKey& key) {
  return find_row<RunRow>(reader, kFindRun, {key.promotion, key.stage, key.attempt});
}

Result<RunRow> find_or_insert_run(Tx& tx, const StageKey& key) {
  auto found = TRY(find_run(tx, key));
  if (found) return *found;
  TRY(tx.run(kInsertRun, {key.promotion, key.stage, key.attempt}));
  found = TRY(find_run(tx, key));
  return found.value_or(RunRow{});
}

LiveCounts sum(const LiveCounts& a, const LiveCounts& b) {
  return {a.requests_candidate + b.requests_candidate, a.requests_incumbent + b.requests_incumbent,
          a.failures_candidate + b.failures_candidate, a.failures_incumbent + b.failures_incumbent};
}

/// Doubles the stride once the points on it reach the limit.
Result<void> thin(Tx& tx, RunRow& run, std::int64_t newest) {
  if (newest / run.stride < kMaxLivePoints) return {};
  run.stride *= 2;
  TRY(tx.run(kThin, {run.id, run.stride, newest}));
  TRY(tx.run(kDropClauses, {run.id}));
  return {};
}

}  // namespace

Result<void> add_live_point(Tx& tx, const StageKey& key, const LivePoint& point) {
  auto run = TRY(find_or_insert_run(tx, key));
  const auto number = run.given;
  run.counts = sum(run.counts, point.counts);
  std::string clauses;
  if (!point.clauses.empty()) {
    constexpr std::size_t kPrefix = sizeof("sha256:") - 1;
    clauses = schema::sha256_digest(point.clauses).substr(kPrefix, kKeyBytes);
    TRY(tx.run(kInsertClauses, {run.id, clauses, point.clauses}));
  }
  TRY(tx.run(kInsertPoint,
             {run.id, number, point.time_us, run.counts.requests_candidate, run.counts.requests_incumbent,
              run.counts.failures_candidate, run.counts.failures_incumbent, clauses, point.body}));
  // The newest point is always kept; the one before only on the stride.
  if (number > 0 && (number - 1) % run.stride != 0) TRY(tx.run(kDeletePoint, {run.id, number - 1}));
  TRY(thin(tx, run, number));
  TRY(tx.run(kUpdateRun,
             {run.id, number + 1, run.stride, run.counts.requests_candidate, run.counts.requests_incumbent,
              run.counts.failures_candidate, run.counts.failures_incumbent}));
  return {};
}

Result<LiveSeries> find_live_series(Reader& reader, const StageKey& key, std::int64_t newest) {
  LiveSeries series;
  const auto run = TRY(find_run(reader, key));
  if (!run) return series;
  series.stride = run->stride;
  series.points = TRY(list_rows<LivePointRow>(reader, kListPoints, {run->id, newest}));
  std::ranges::reverse(series.points);
  series.clauses = TRY(list_rows<LiveClausesRow>(reader, kListClauses, {run->id}));
  return series;
}

}  // namespace driftgate::store
