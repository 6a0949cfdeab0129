#include "daemon/store/jobs.hpp"

#include <fmt/format.h>

#include <string_view>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{"insert job",
                      "INSERT INTO jobs(" DRIFTGATE_JOB_COLUMNS
                      ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
                      "?18, ?19, ?20) ON CONFLICT(promotion, stage, attempt, name) DO NOTHING"};
constexpr Sql kUpdate{"update job",
                      "UPDATE jobs SET state = ?2, remote = ?3, result = ?4, ended_us = ?5, runner = ?6, "
                      "nodes = ?7, place_reason = ?8, dir = ?9 WHERE id = ?1"};
constexpr Sql kRequestCancel{"request the cancelling of a job",
                             "UPDATE jobs SET cancelled_by = ?2, cancel_reason = ?3, cancelled_us = ?4 "
                             "WHERE id = ?1 AND cancelled_us IS NULL AND state IN ('pending', 'running')"};
constexpr Sql kFind{"find job", "SELECT " DRIFTGATE_JOB_COLUMNS " FROM jobs WHERE id = ?1"};
constexpr Sql kFindSame{"find same job",
                        "SELECT " DRIFTGATE_JOB_COLUMNS
                        " FROM jobs WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3 AND name = ?4"};
constexpr Sql kList{"list jobs",
                    "SELECT " DRIFTGATE_JOB_COLUMNS
                    " FROM jobs WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3 ORDER BY id"};
constexpr Sql kOpen{"open jobs",
                    "SELECT " DRIFTGATE_JOB_COLUMNS
                    " FROM jobs INDEXED BY jobs_open WHERE state IN ('pending', 'running') ORDER BY id"};

// ?1: id of the cursor, ?2: rows, ?3 …: the filters, NULL when they are not given.
#define MATCHES                                                                                \
  " id < ?1 AND (?3 IS NULL OR state = ?3) AND (?4 IS NULL OR model = ?4) AND (?5 IS NULL OR " \
  "promotion = ?5) AND (?6 IS NULL OR kind = ?6) ORDER BY id DESC LIMIT ?2"
#define SELECT_BY(index) "SELECT " DRIFTGATE_JOB_COLUMNS " FROM jobs " index " WHERE "

constexpr Sql kNewest{"newest jobs", SELECT_BY("") MATCHES};
constexpr Sql kOfPromotion{"jobs of a promotion",
                           SELECT_BY("INDEXED BY jobs_by_promotion") "promotion = ?5 AND" MATCHES};
constexpr Sql kInState{"jobs in a state", SELECT_BY("INDEXED BY jobs_by_state") "state = ?3 AND" MATCHES};
constexpr Sql kOfModel{"jobs of a model", SELECT_BY("INDEXED BY jobs_by_model") "model = ?4 AND" MATCHES};
constexpr Sql kOfKind{"jobs of a kind", SELECT_BY("INDEXED BY jobs_by_kind") "kind = ?6 AND" MATCHES};

#undef SELECT_BY
#undef MATCHES

constexpr std::string_view kBehindAllIds = "~";

}  // namespace

Result<JobRow> ensure_job(Tx& tx, const JobRow& job) {
  TRY(explain(tx.run(kInsert, {job.id,
                               job.stage.promotion,
                               job.stage.stage,
                               job.stage.attempt,
                               job.name,
                               job.kind,
                               job.dir,
                               to_string(job.state),
                               job.remote,
                               job.spec_digest,
                               job.result,
                               job.created_us,
                               job.ended_us,
                               job.model,
                               job.runner,
                               job.nodes,
                               job.place_reason,
                               job.cancelled_by,
                               job.cancel_reason,
                               job.cancelled_us}),
              fmt::format("job '{}' of {} cannot be stored", job.name, job.stage.text())));
  return must_exist(
      find_row<JobRow>(tx, kFindSame, {job.stage.promotion, job.stage.stage, job.stage.attempt, job.name}),
      "the job just stored is missing");
}

Result<void> update_job(Tx& tx, const JobRow& job) {
  return must_change(tx.run(kUpdate, {job.id, to_string(job.state), job.remote, job.result, job.ended_us,
                                      job.runner, job.nodes, job.place_reason, job.dir}),
                     ErrorCode::not_found, fmt::format("there is no job '{}'", job.id));
}

Result<void> request_cancel(Tx& tx, const std::string& id, const std::string& by, const std::string& reason,
                            std::int64_t now_us) {
  return must_change(tx.run(kRequestCancel, {id, by, reason, now_us}), ErrorCode::not_found,
                     fmt::format("there is no job '{}' that runs and was not cancelled", id));
}

Result<std::vector<JobRow>> end_open_jobs(Tx& tx, const StageKey& stage, const std::string& result,
                                          std::int64_t now_us) {
  auto open = TRY(list_jobs(tx, stage));
  std::erase_if(open, [](const JobRow& job) {
    return job.state != JobState::pending && job.state != JobState::running;
  });
  for (const JobRow& job : open) {
    JobRow ended = job;
    ended.state = JobState::cancelled;
    ended.result = result;
    ended.ended_us = now_us;
    TRY(update_job(tx, ended));
  }
  return open;
}

Result<std::optional<JobRow>> find_job(Reader& reader, const std::string& id) {
  return find_row<JobRow>(reader, kFind, {id});
}

Result<JobRow> get_job(Reader& reader, const std::string& id) {
  auto row = TRY(find_job(reader, id));
  if (row) return std::move(*row);
  return schema::fail(ErrorCode::not_found, fmt::format("there is no job '{}'", id));
}

Result<std::vector<JobRow>> list_jobs(Reader& reader, const StageKey& stage) {
  return list_rows<JobRow>(reader, kList, {stage.promotion, stage.stage, stage.attempt});
}

Result<std::vector<JobRow>> open_jobs(Reader& reader) {
  return list_rows<JobRow>(reader, kOpen, {});
}

const Sql& statement_of(const JobQuery& query) {
  if (query.promotion) return kOfPromotion;
  if (query.state == JobState::pending || query.state == JobState::running) return kInState;
  if (query.model) return kOfModel;
  if (query.state) return kInState;
  return query.kind ? kOfKind : kNewest;
}

Result<std::vector<JobRow>> query_jobs(Reader& reader, const JobQuery& query) {
  if (query.limit < 1 || query.limit > kMaxListedJobs)
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("a page must have 1 to {} jobs", kMaxListedJobs));
  std::optional<std::string_view> state;
  if (query.state) state = to_string(*query.state);
  const std::string_view after = query.after.empty() ? kBehindAllIds : std::string_view(query.after);
  return list_rows<JobRow>(reader, statement_of(query),
                           {after, query.limit, state, query.model, query.promotion, query.kind});
}

}  // namespace driftgate::store
