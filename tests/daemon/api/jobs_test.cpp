#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "fixture.hpp"

using namespace driftgate::api;
using driftgate::api::test::Fixture;
using nlohmann::json;

TEST_CASE("jobs are listed by their filters") {
  Fixture fixture;
  const auto all = fixture.call("GET", "/v1/jobs", "viewer");
  CHECK(all.status == 200);
  CHECK(json::parse(all.body)["items"][0]["id"] == "job-1");
  CHECK(fixture.call("GET", "/v1/jobs?state=running&model=m&promotion=pr-1&kind=drift", "viewer").status ==
        200);
  const auto& filter = fixture.service.job_filter;
  CHECK(filter.state == "running");
  CHECK(filter.model == "m");
  CHECK(filter.promotion == "pr-1");
  CHECK(filter.kind == "drift");
  CHECK(fixture.call("GET", "/v1/jobs?runner=slurm", "viewer").status == 400);
}

TEST_CASE("the folder of a job is for those who may see the settings") {
  Fixture fixture;
  for (const char* scope : {"viewer", "promoter", "approver", "auditor"}) {
    CAPTURE(scope);
    const auto job = fixture.call("GET", "/v1/jobs/job-1", scope);
    CHECK(job.status == 200);
    CHECK_FALSE(json::parse(job.body).contains("folder"));
    CHECK(fixture.call("GET", "/v1/settings", scope).status == 403);
    CHECK(fixture.call("GET", "/v1/jobs/job-1/log", scope).status == 403);
    CHECK(fixture.call("POST", "/v1/jobs/job-1/cancel", scope, R"({"reason":"r"})").status == 403);
  }
  for (const char* scope : {"operator", "admin"})
    CHECK(json::parse(fixture.call("GET", "/v1/jobs/job-1", scope).body)["folder"] == "/jobs/1");
  CHECK(fixture.call("GET", "/v1/jobs/job-2", "viewer").status == 404);
}

TEST_CASE("a part of a log is asked for by file, offset and length") {
  Fixture fixture;
  CHECK(fixture.call("GET", "/v1/jobs/job-1/log", "operator").status == 200);
  CHECK(fixture.service.log_request.file.empty());
  CHECK_FALSE(fixture.service.log_request.offset.has_value());
  CHECK(fixture.service.log_request.limit == 65'536);
  CHECK(fixture.call("GET", "/v1/jobs/job-1/log?file=slurm-7.out&offset=12&limit=100", "operator").status ==
        200);
  CHECK(fixture.service.log_request.file == "slurm-7.out");
  CHECK(fixture.service.log_request.offset == 12);
  CHECK(fixture.service.log_request.limit == 100);
  CHECK(fixture.call("GET", "/v1/jobs/job-1/log?offset=-1", "operator").status == 400);
}

TEST_CASE("a job is cancelled for a reason, by name") {
  Fixture fixture;
  CHECK(fixture.call("POST", "/v1/jobs/job-1/cancel", "operator", R"({"reason":"too slow"})").status == 200);
  REQUIRE(fixture.service.calls.size() == 1);
  CHECK(fixture.service.calls.front().ends_with(" cancel_job job-1 too slow"));
  CHECK(fixture.call("POST", "/v1/jobs/job-1/cancel", "operator", "{}").status == 422);
}

TEST_CASE("open jobs are counted by runner and by where they stand") {
  Fixture fixture;
  const auto metrics = fixture.call("GET", "/metrics", "").body;
  CHECK(metrics.find("driftgate_jobs{runner=\"slurm\",state=\"queued\"} 3\n") != std::string::npos);
}
