#include "daemon/store/promotions/of_many.hpp"

#include <fmt/format.h>

#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

// The keys of the only parameter.
#define KEYS "(SELECT value FROM json_each(?1))"

constexpr Sql kRuns{
    "stage runs of promotions",
    "SELECT promotion, stage, attempt, state, started_us, planned_end_us, ended_us, watermark, "
    "step, step_started_us, progress, report FROM stage_runs WHERE promotion IN " KEYS " ORDER BY rowid"};
constexpr Sql kCounts{"verdict counts of promotions",
                      "SELECT promotion, stage, attempt, verdict, count(*) FROM verdicts INDEXED BY "
                      "verdicts_counted WHERE promotion IN " KEYS
                      " GROUP BY promotion, stage, attempt, verdict"};
constexpr Sql kOpenVerdicts{
    "open verdicts of promotions",
    "SELECT promotion, stage, attempt, clause, slice, verdict FROM verdicts INDEXED BY "
    "verdicts_not_passed WHERE promotion IN " KEYS
    " AND verdict <> 'pass' "
    "ORDER BY promotion, stage, attempt, clause, slice"};
constexpr Sql kUndecided{
    "undecided verdicts of promotions",
    "SELECT promotion, stage, attempt, clause, slice, verdict, detail, evidence_seq, decided_us "
    "FROM verdicts INDEXED BY verdicts_not_passed WHERE promotion IN " KEYS
    " AND verdict <> 'pass' AND verdict = 'inconclusive' "
    "ORDER BY promotion, stage, attempt, clause, slice"};
constexpr Sql kJobs{"running jobs of promotions",
                    "SELECT " DRIFTGATE_JOB_COLUMNS " FROM jobs WHERE promotion IN " KEYS
                    " AND state = 'running' ORDER BY id"};
constexpr Sql kApprovals{
    "approvals of promotions",
    "SELECT id, promotion, stage, attempt, step, who, evidence_digest, decision, reason, "
    "given_us FROM approvals WHERE promotion IN " KEYS " ORDER BY id"};
constexpr Sql kVersions{
    "find versions",
    "SELECT id, checkpoint, kernel, engine, created_us, base_url FROM versions WHERE id IN " KEYS};
constexpr Sql kContracts{
    "find contracts",
    "SELECT digest, name, canonical, registrant, registered_us, evidence_seq FROM contracts "
    "WHERE digest IN " KEYS};
constexpr Sql kModels{"find models",
                      "SELECT name, incumbent, epoch, lock_owner, hold, held_by, hold_promotion, hold_us, "
                      "created_us, updated_us, revision, evidence_seq FROM models WHERE name IN " KEYS};
constexpr Sql kDesired{
    "desired routes of models",
    "SELECT model, epoch, revision, route, time_us FROM desired_routes WHERE model IN " KEYS};
constexpr Sql kApplied{
    "applied routes of models",
    "SELECT model, epoch, revision, route, time_us FROM applied_routes WHERE model IN " KEYS};
constexpr Sql kHolders{
    "promotions that hold models",
    "SELECT model, id FROM promotions INDEXED BY promotions_one_holds_model WHERE model IN " KEYS
    " AND state IN ('running', 'paused', 'awaiting_approval', 'inconclusive', 'rolling_back', "
    "'finalizing')"};

#undef KEYS

template <typename T>
Result<std::vector<T>> rows_of(Reader& reader, const Sql& sql, std::span<const std::string> keys) {
  if (keys.empty()) return std::vector<T>();
  const std::string list = key_list(keys);
  return list_rows<T>(reader, sql, {list});
}

void append_quoted(std::string& text, std::string_view key) {
  text += '"';
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      text += fmt::format("\\u{:04x}", byte);
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  text += '"';
}

}  // namespace

std::string key_list(std::span<const std::string> keys) {
  std::string text = "[";
  for (const std::string& key : keys) {
    if (text.size() > 1) text += ',';
    append_quoted(text, key);
  }
  return text + "]";
}

Result<std::vector<StageRunRow>> stage_runs_of(Reader& reader, std::span<const std::string> promotions) {
  return rows_of<StageRunRow>(reader, kRuns, promotions);
}
Result<std::vector<VerdictCount>> verdict_counts_of(Reader& reader, std::span<const std::string> promotions) {
  return rows_of<VerdictCount>(reader, kCounts, promotions);
}
Result<std::vector<OpenVerdict>> open_verdicts_of(Reader& reader, std::span<const std::string> promotions) {
  return rows_of<OpenVerdict>(reader, kOpenVerdicts, promotions);
}
Result<std::vector<VerdictRow>> undecided_of(Reader& reader, std::span<const std::string> promotions) {
  return rows_of<VerdictRow>(reader, kUndecided, promotions);
}
Result<std::vector<JobRow>> running_jobs_of(Reader& reader, std::span<const std::string> promotions) {
  return rows_of<JobRow>(reader, kJobs, promotions);
}
Result<std::vector<ApprovalRow>> approvals_of(Reader& reader, std::span<const std::string> promotions) {
  return rows_of<ApprovalRow>(reader, kApprovals, promotions);
}
Result<std::vector<VersionRow>> versions_of(Reader& reader, std::span<const std::string> ids) {
  return rows_of<VersionRow>(reader, kVersions, ids);
}
Result<std::vector<ContractRow>> contracts_of(Reader& reader, std::span<const std::string> digests) {
  return rows_of<ContractRow>(reader, kContracts, digests);
}
Result<std::vector<ModelRow>> models_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<ModelRow>(reader, kModels, models);
}
Result<std::vector<RouteRow>> desired_routes_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<RouteRow>(reader, kDesired, models);
}
Result<std::vector<RouteRow>> applied_routes_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<RouteRow>(reader, kApplied, models);
}
Result<std::vector<Holder>> holders_of(Reader& reader, std::span<const std::string> models) {
  return rows_of<Holder>(reader, kHolders, models);
}

}  // namespace driftgate::store
