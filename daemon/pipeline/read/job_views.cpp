#include "daemon/pipeline/read/job_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/jobs/job_folder.hpp"
#include "daemon/pipeline/read/json_views.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;

bool is_open(const store::JobRow& row) {
  return !row.ended_us;
}

/// Where a job is, or was when it ended.
std::optional<jobs::JobPlace> place_of(const store::JobRow& row, jobs::JobRunner& runner) {
  if (is_open(row)) {
    auto place = runner.place(job_key(row.stage, row.name));
    if (place) place->reason = without_folder(std::move(place->reason), row.dir);
    return place;
  }
  if (row.runner.empty()) return std::nullopt;
  return jobs::JobPlace{.runner = row.runner,
                        .remote = row.remote,
                        .state = "ended",
                        .reason = row.place_reason,
                        .nodes = row.nodes};
}

json told_json(const std::optional<jobs::JobProgress>& progress) {
  if (!progress) return nullptr;
  return {{"done", progress->done},
          {"total", progress->total},
          {"unit", progress->unit},
          {"text", progress->text}};
}

json cancel_json(const store::JobRow& row) {
  if (!row.cancelled_us) return nullptr;
  return {{"by", row.cancelled_by}, {"reason", row.cancel_reason}, {"since_us", *row.cancelled_us}};
}

/// What the job's result says; nulls while it has none.
void put_result(json& value, const store::JobRow& row) {
  value["error"] = nullptr;
  value["digests"] = json::object();
  value["wall_ms"] = nullptr;
  if (row.result.empty()) return;
  const auto result = jobs::job_result_from_json(row.result);
  if (!result) {
    value["error"] = {{"code", "corrupt"}, {"message", "its stored result cannot be read"}};
    return;
  }
  value["digests"] = result->digests;
  value["wall_ms"] = result->wall_ms;
  if (result->error)
    value["error"] = {{"code", schema::to_string(result->error->code)}, {"message", result->error->message}};
}

json row_json(const store::JobRow& row, jobs::JobRunner& runner) {
  const auto key = job_key(row.stage, row.name);
  json value{{"id", row.id},
             {"promotion", row.stage.promotion},
             {"model", row.model},
             {"stage", row.stage.stage},
             {"attempt", row.stage.attempt},
             {"name", row.name},
             {"kind", row.kind},
             {"state", store::to_string(row.state)},
             {"place", place_json(place_of(row, runner))},
             {"progress", told_json(is_open(row) ? runner.progress(key) : std::nullopt)},
             {"cancel", cancel_json(row)},
             {"created_us", row.created_us},
             {"ended_us", maybe_json(row.ended_us)}};
  put_result(value, row);
  return value;
}

View view_of(const store::JobRow& row, const json& value) {
  return {.id = row.id, .json = schema::canonical_json(value)};
}

std::optional<std::string> given(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

schema::Result<store::JobQuery> query_of(const JobFilter& filter, const PageRequest& request) {
  if (request.limit < 1 || request.limit > kMaxPageItems)
    return schema::fail(ErrorCode::invalid_argument, fmt::format("a page has 1 to {} items", kMaxPageItems));
  store::JobQuery query;
  if (!filter.state.empty()) {
    const auto state = TRY(store::parse_state<store::JobState>(filter.state));
    query.state = state;
  }
  if (!filter.kind.empty() && !jobs::kind_from_name(filter.kind))
    return schema::fail(ErrorCode::invalid_argument, "'kind' must be drift, capture or rescore");
  query.model = given(filter.model);
  query.promotion = given(filter.promotion);
  query.kind = given(filter.kind);
  query.after = request.after;
  query.limit = static_cast<std::int64_t>(request.limit) + 1;
  return query;
}

}  // namespace

json place_json(const std::optional<jobs::JobPlace>& place) {
  if (!place) return nullptr;
  return {{"runner", place->runner},
          {"remote", place->remote},
          {"state", place->state},
          {"reason", place->reason},
          {"nodes", place->nodes}};
}

std::string place_text(const jobs::JobPlace& place) {
  const bool local = place.runner == "local";
  const auto why = place.reason.empty() ? std::string() : ": " + place.reason;
  if (place.state == "waiting") return (local ? "waits" : "waits to be submitted to Slurm") + why;
  if (local || place.state == "ended") return {};
  if (place.state == "queued") return fmt::format("queued at Slurm as {}{}", place.remote, why);
  const auto where = place.nodes.empty() ? std::string() : " on " + place.nodes;
  return fmt::format("runs at Slurm as {}{}{}", place.remote, where, why);
}

View job_view(const store::JobRow& row, jobs::JobRunner& runner, const std::vector<std::string>& logs,
              bool with_folder) {
  json value = row_json(row, runner);
  value["logs"] = logs;
  if (with_folder) value["folder"] = row.dir;
  return view_of(row, value);
}

schema::Result<Page> job_page(store::Reader& reader, jobs::JobRunner& runner, const JobFilter& filter,
                              const PageRequest& request) {
  const auto query = TRY(query_of(filter, request));
  const auto rows = TRY(store::query_jobs(reader, query));
  Page page;
  for (std::size_t i = 0; i < std::min(rows.size(), request.limit); ++i)
    page.items.push_back(view_of(rows[i], row_json(rows[i], runner)));
  if (rows.size() > request.limit) page.next = rows[request.limit - 1].id;
  return page;
}

schema::Result<View> job_log_view(const store::JobRow& row, const JobLogRequest& request) {
  if (request.limit < 1 || request.limit > kMaxJobLogBytes)
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("'limit' must be 1 to {} bytes", kMaxJobLogBytes));
  const jobs::JobFolder folder(row.dir);
  const auto files = folder.printed();
  auto file = request.file;
  if (file.empty()) file = files.empty() ? "log" : files.back();
  // A job that has no files has printed nothing yet, or its stage has ended: what is asked for may have been
  // there.
  if (!files.empty() && std::ranges::find(files, file) == files.end()) {
    return schema::fail(ErrorCode::not_found,
                        fmt::format("job {} has no such output; it has: {}", row.id, fmt::join(files, ", ")),
                        "file");
  }
  auto part = files.empty()
                  ? jobs::JobFolder::Part{}
                  : folder.part(file, request.offset, request.limit).value_or(jobs::JobFolder::Part{});
  return view_of(row, {{"job", row.id},
                       {"file", file},
                       {"files", files},
                       {"from", part.from},
                       {"next", part.next},
                       {"size", part.size},
                       {"text", std::move(part.text)},
                       {"ended", !is_open(row)}});
}

schema::Result<JobCounts> count_jobs(store::Reader& reader, jobs::JobRunner& runner) {
  const auto rows = TRY(store::open_jobs(reader));
  JobCounts counts;
  for (const auto& row : rows) {
    const auto place = runner.place(job_key(row.stage, row.name));
    counts[{place ? place->runner : "none", place ? place->state : "waiting"}] += 1;
  }
  return counts;
}

}  // namespace driftgate::pipeline
