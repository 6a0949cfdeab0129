#include "daemon/store/jobs.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sqlite3.h>

#include <algorithm>
#include <set>

#include "daemon/store/sqlite/migrate.hpp"
#include "tests/daemon/store/rows.hpp"

using namespace driftgate::store;
using namespace driftgate::store::testing;
using driftgate::schema::ErrorCode;

namespace {

struct JobsFixture : StoreFixture {
  JobsFixture() {
    insert_world(*store);
    write(*store, [](Tx& tx) -> Result<void> {
      for (const std::string id : {"pr-1", "pr-2"}) {
        auto row = promotion_row(id);
        must(insert_promotion(tx, row));
        must(insert_stage_run(tx, {.key = stage_of(id)}));
      }
      for (int i = 0; i < 40; ++i) must(ensure_job(tx, job_of(i)));
      return {};
    });
  }

  static StageKey stage_of(const std::string& promotion) { return {promotion, "offline-numeric", 1}; }

  static JobRow job_of(int i) {
    JobRow job{.id = fmt::format("job-{:03}", i),
               .stage = stage_of(i % 4 == 0 ? "pr-2" : "pr-1"),
               .name = fmt::format("capture-{}", i),
               .kind = i % 3 == 0 ? "drift" : "capture",
               .dir = fmt::format("/jobs/{}", i),
               .state = i % 5 == 0 ? JobState::running : JobState::done,
               .created_us = i};
    job.model = i % 2 == 0 ? "tiny" : "small";
    if (job.state == JobState::done) {
      job.ended_us = i + 1;
      job.result = "{}";
    }
    return job;
  }

  /// The ids of all pages of three.
  std::vector<std::string> ids(JobQuery query) {
    std::vector<std::string> found;
    query.limit = 3;
    for (bool more = true; more;) {
      const auto rows = read(*store, [&](Reader& reader) { return query_jobs(reader, query); });
      for (const auto& row : rows) found.push_back(row.id);
      more = rows.size() == 3;
      if (more) query.after = rows.back().id;
    }
    return found;
  }

  std::string plan(const JobQuery& query) {
    sqlite3* raw = nullptr;
    REQUIRE(sqlite3_open_v2((dir.path() / "driftgate.db").c_str(), &raw, SQLITE_OPEN_READONLY, nullptr) ==
            SQLITE_OK);
    const std::string text = std::string("EXPLAIN QUERY PLAN ") + statement_of(query).text;
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(raw, text.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    std::string lines;
    while (sqlite3_step(statement) == SQLITE_ROW)
      lines += std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, 3))) + "\n";
    sqlite3_finalize(statement);
    sqlite3_close(raw);
    return lines;
  }
};

bool matches(const JobQuery& query, const JobRow& row) {
  return (!query.state || row.state == *query.state) && (!query.model || row.model == *query.model) &&
         (!query.promotion || row.stage.promotion == *query.promotion) &&
         (!query.kind || row.kind == *query.kind);
}

}  // namespace

TEST_CASE_FIXTURE(JobsFixture,
                  "pages of jobs have exactly what matches all filters, newest first, by an index") {
  std::set<std::string> plans;
  for (int chosen = 0; chosen < 32; ++chosen) {
    JobQuery query;
    if ((chosen & 1) != 0) query.state = JobState::running;
    if ((chosen & 2) != 0) query.model = "tiny";
    if ((chosen & 4) != 0) query.promotion = "pr-2";
    if ((chosen & 8) != 0) query.kind = "drift";
    if ((chosen & 16) != 0) query.state = JobState::done;
    CAPTURE(chosen);
    std::vector<std::string> expected;
    for (int i = 39; i >= 0; --i)
      if (matches(query, job_of(i))) expected.push_back(job_of(i).id);
    CHECK(ids(query) == expected);
    const auto text = plan(query);
    CAPTURE(text);
    CHECK(text.find("TEMP B-TREE") == std::string::npos);
    CHECK(text.find("SEARCH jobs USING INDEX") == 0);
    plans.insert(text);
  }
  CHECK(plans.size() == 5);  // all, promotion, state, model, kind
}

TEST_CASE_FIXTURE(JobsFixture,
                  "the first who asks for a job's end is kept, and only of a job that has none") {
  const auto cancel = [&](const char* id, const char* by) {
    return store->write("test", [&](Tx& tx) { return request_cancel(tx, id, by, "too slow", 77); });
  };
  CHECK(cancel("job-005", "anna").has_value());
  CHECK(cancel("job-005", "olga").error().code == ErrorCode::not_found);
  CHECK(cancel("job-001", "anna").error().code == ErrorCode::not_found);
  CHECK(cancel("job-999", "anna").error().code == ErrorCode::not_found);
  const auto row = read(*store, [](Reader& reader) { return get_job(reader, "job-005"); });
  auto expected = job_of(5);
  expected.cancelled_by = "anna";
  expected.cancel_reason = "too slow";
  expected.cancelled_us = 77;
  CHECK(row == expected);
  CHECK(read(*store, [](Reader& reader) { return get_job(reader, "job-001"); }) == job_of(1));
}

TEST_CASE_FIXTURE(JobsFixture, "the jobs that a stage leaves end with it, and no others") {
  const auto left =
      write(*store, [](Tx& tx) { return end_open_jobs(tx, stage_of("pr-2"), R"({"ok":false})", 99); });
  CHECK(left == std::vector{job_of(0), job_of(20)});
  for (const int i : {0, 20}) {
    const auto row = read(*store, [&](Reader& reader) { return get_job(reader, job_of(i).id); });
    CHECK(row.state == JobState::cancelled);
    CHECK(row.result == R"({"ok":false})");
    CHECK(row.ended_us == 99);
  }
  CHECK(read(*store, [](Reader& reader) { return get_job(reader, "job-005"); }) == job_of(5));
  CHECK(write(*store, [](Tx& tx) { return end_open_jobs(tx, stage_of("pr-2"), "{}", 100); }).empty());
}

TEST_CASE("jobs of an older database get their model, and end where their stage had ended without them") {
  TempDir dir;
  const auto path = (dir.path() / "driftgate.db").string();
  std::fclose(std::fopen(path.c_str(), "a"));
  auto connection = must(Connection::open(path, Connection::Mode::read_write, ""));
  must(migrate(*connection, embedded_migrations().first(7), 1));
  must(connection->execute(R"sql(
    PRAGMA foreign_keys = OFF;
    INSERT INTO promotions(id, model, engine, candidate, contract, state, stage, attempt, traffic, baseline, seed, request,
      requester, created_us, updated_us, outcome, reason, revision, evidence_seq)
      VALUES('pr-1', 'tiny', 'e', 'v', 'c', 'running', 'canary', 1, 'never_exposed', '', 1, '{}', 'ada', 1, 1, '', '', 1, 1);
    INSERT INTO stage_runs(promotion, stage, attempt, state, started_us, ended_us, watermark, step, step_started_us,
      progress, report) VALUES('pr-1', 'offline-numeric', 1, 'error', 1, 5, 0, 0, 0, '', ''),
      ('pr-1', 'offline-numeric', 2, 'running', 6, NULL, 0, 0, 0, '', '');
    INSERT INTO jobs(id, promotion, stage, attempt, name, kind, dir, state, remote, spec_digest, result, created_us)
      VALUES('job-1', 'pr-1', 'offline-numeric', 1, 'drift', 'drift', '/1', 'running', '', '', '', 2),
      ('job-2', 'pr-1', 'offline-numeric', 2, 'drift', 'drift', '/2', 'running', '', '', '', 7);)sql",
                           "fill"));
  must(migrate(*connection, embedded_migrations(), 2));
  Reader reader(*connection);
  const auto left = must(get_job(reader, "job-1"));
  CHECK(left.model == "tiny");
  CHECK(left.state == JobState::cancelled);
  CHECK(left.ended_us == 5);
  CHECK(left.result.find("its stage ended without it") != std::string::npos);
  const auto runs = must(get_job(reader, "job-2"));
  CHECK(runs.model == "tiny");
  CHECK(runs.state == JobState::running);
  CHECK_FALSE(runs.ended_us.has_value());
}
