#include "daemon/store/jobs.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert job",
    "INSERT INTO jobs(id, promotion, stage, attempt, name, kind, dir, state, remote, spec_digest, "
    "result, created_us, ended_us) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) "
    "ON CONFLICT(promotion, stage, attempt, name) DO NOTHING"};
constexpr Sql kUpdate{"update job",
                      "UPDATE jobs SET state = ?2, remote = ?3, result = ?4, ended_us = ?5 WHERE id = ?1"};
constexpr Sql kFindSame{
    "find same job",
    "SELECT id, promotion, stage, attempt, name, kind, dir, state, remote, spec_digest, result, "
    "created_us, ended_us FROM jobs "
    "WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3 AND name = ?4"};
constexpr Sql kList{
    "list jobs",
    "SELECT id, promotion, stage, attempt, name, kind, dir, state, remote, spec_digest, result, "
    "created_us, ended_us FROM jobs WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3 ORDER BY id"};
constexpr Sql kOpen{
    "open jobs",
    "SELECT id, promotion, stage, attempt, name, kind, dir, state, remote, spec_digest, result, "
    "created_us, ended_us FROM jobs WHERE state IN ('pending', 'running') ORDER BY id"};

}  // namespace

Result<JobRow> ensure_job(Tx& tx, const JobRow& job) {
  TRY(explain(tx.run(kInsert, {job.id, job.stage.promotion, job.stage.stage, job.stage.attempt, job.name,
                               job.kind, job.dir, to_string(job.state), job.remote, job.spec_digest,
                               job.result, job.created_us, job.ended_us}),
              fmt::format("job '{}' of {} cannot be stored", job.name, job.stage.text())));
  return must_exist(
      find_row<JobRow>(tx, kFindSame, {job.stage.promotion, job.stage.stage, job.stage.attempt, job.name}),
      "the job just stored is missing");
}

Result<void> update_job(Tx& tx, const JobRow& job) {
  return must_change(tx.run(kUpdate, {job.id, to_string(job.state), job.remote, job.result, job.ended_us}),
                     ErrorCode::not_found, fmt::format("there is no job '{}'", job.id));
}

Result<std::vector<JobRow>> list_jobs(Reader& reader, const StageKey& stage) {
  return list_rows<JobRow>(reader, kList, {stage.promotion, stage.stage, stage.attempt});
}

Result<std::vector<JobRow>> open_jobs(Reader& reader) {
  return list_rows<JobRow>(reader, kOpen, {});
}

}  // namespace driftgate::store
