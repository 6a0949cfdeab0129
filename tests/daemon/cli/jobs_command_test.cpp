#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::has;
using cli::test::Ran;
using cli::test::ScriptedDaemon;
using nlohmann::json;

namespace {

constexpr const char* kQueued =
    R"({"id":"job-1","promotion":"pr-1","model":"m","stage":"offline-numeric","attempt":2,"name":"drift",
  "kind":"drift","state":"running","place":{"runner":"slurm","remote":"1234","state":"queued","reason":"Priority",
  "nodes":""},"progress":null,"cancel":null,"created_us":1800000000000000,"ended_us":null,"error":null,
  "digests":{},"wall_ms":null,"logs":["log","slurm-1234.out"]})";
constexpr const char* kCancelled =
    R"({"id":"job-2","promotion":"pr-1","model":"m","stage":"offline-numeric","attempt":1,"name":"capture-inf",
  "kind":"capture","state":"cancelled","place":{"runner":"local","remote":"77","state":"ended","reason":"","nodes":""},
  "progress":null,"cancel":{"by":"anna","reason":"too slow","since_us":1800000001000000},
  "created_us":1800000000000000,"ended_us":1800000002000000,
  "error":{"code":"conflict","message":"cancelled by anna: too slow"},"digests":{"adapter":"sha256:a"},"wall_ms":5,
  "logs":[],"folder":"/jobs/2"})";

std::string part(const std::string& text, int next, int size, bool ended, const char* file = "log") {
  return json{{"job", "job-1"}, {"file", file},  {"files", json::array({file})},
              {"from", 0},      {"next", next},  {"size", size},
              {"text", text},   {"ended", ended}}
      .dump();
}

}  // namespace

TEST_CASE("jobs are a table that says where each runs and what it waits for") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/jobs?limit=50", std::string(R"({"items":[)") + kQueued + "," + kCancelled + "]}");
  CHECK(daemon.run({"jobs", "list"}).out ==
        "id     promotion  stage            name         state      where                 progress  "
        "created (UTC)\n"
        "job-1  pr-1       offline-numeric  drift        queued     slurm 1234: Priority            "
        "2027-01-15 08:00:00\n"
        "job-2  pr-1       offline-numeric  capture-inf  cancelled  local 77                        "
        "2027-01-15 08:00:00\n");
  daemon.on("GET /v1/jobs?limit=3&state=failed&model=m 1&promotion=pr-1&kind=drift", R"({"items":[]})");
  CHECK(daemon
            .run({"jobs", "list", "--state", "failed", "--model", "m 1", "--promotion", "pr-1", "--kind",
                  "drift", "--limit", "3"})
            .out == "There are no such jobs.\n");
  CHECK(json::parse(daemon.run({"jobs", "list", "--json"}).out)["items"].size() == 2);
  CHECK(daemon.run({"jobs", "list", "--state", "lost"}).exit_code == 64);
  CHECK(daemon.run({"jobs"}).exit_code == 64);
}

TEST_CASE("one job is shown with its place, its end and who asked for that") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/jobs/job-1", kQueued);
  daemon.on("GET /v1/jobs/job-2", kCancelled);
  CHECK(daemon.run({"jobs", "show", "job-1"}).out ==
        "job        job-1\n"
        "promotion  pr-1 of model m\n"
        "stage      offline-numeric, attempt 2\n"
        "name       drift (drift)\n"
        "state      queued\n"
        "where      slurm 1234: Priority\n"
        "created    2027-01-15 08:00:00 UTC\n"
        "logs       log, slurm-1234.out\n");
  CHECK(daemon.run({"jobs", "show", "job-2"}).out ==
        "job        job-2\n"
        "promotion  pr-1 of model m\n"
        "stage      offline-numeric, attempt 1\n"
        "name       capture-inf (capture)\n"
        "state      cancelled\n"
        "where      local 77\n"
        "created    2027-01-15 08:00:00 UTC\n"
        "ended      2027-01-15 08:00:02 UTC\n"
        "cancelled  by anna at 2027-01-15 08:00:01 UTC: too slow\n"
        "error      conflict: cancelled by anna: too slow\n"
        "digest     adapter sha256:a\n"
        "folder     /jobs/2\n");
  CHECK(daemon.run({"jobs", "show", "job-3"}).exit_code == 4);
}

TEST_CASE("a running job says how far it is and that its end was asked for") {
  ScriptedDaemon daemon;
  auto job = json::parse(kQueued);
  job["place"] = {
      {"runner", "slurm"}, {"remote", "1234"}, {"state", "running"}, {"reason", ""}, {"nodes", "n[1-2]"}};
  job["progress"] = {{"done", 42}, {"total", 100}, {"unit", "rows"}, {"text", "measuring"}};
  job["cancel"] = {{"by", "anna"}, {"reason", "x"}, {"since_us", 1}};
  daemon.on("GET /v1/jobs/job-1", job.dump());
  const auto shown = daemon.run({"jobs", "show", "job-1"}).out;
  CHECK(has(shown, "state      running, being cancelled\n"));
  CHECK(has(shown, "where      slurm 1234 on n[1-2]\n"));
  CHECK(has(shown, "progress   42% (42 of 100 rows), measuring\n"));
}

TEST_CASE("a job is cancelled under a key of its own") {
  ScriptedDaemon daemon;
  daemon.on("POST /v1/jobs/job-2/cancel", kCancelled);
  CHECK(daemon.run({"jobs", "cancel", "job-2", "--reason", "too slow"}).out ==
        "job job-2 is cancelled by anna: too slow\n");
  CHECK(daemon.asked().back() == R"(POST /v1/jobs/job-2/cancel {"reason":"too slow"})");
  CHECK(daemon.requests().back().header("idempotency-key").has_value());
  CHECK(daemon.run({"jobs", "cancel", "job-2"}).exit_code == 64);
}

TEST_CASE("the end of each output is printed under its name, without what would steer a terminal") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/jobs/job-1", kQueued);
  daemon.on("GET /v1/jobs/job-1/log?file=log&limit=262144", part("a\x1b[2Jb\nc", 5, 5, false));
  daemon.on("GET /v1/jobs/job-1/log?file=slurm-1234.out&limit=262144",
            part("slurm says\n", 11, 11, false, "slurm-1234.out"));
  const Ran ran = daemon.run({"jobs", "logs", "job-1"});
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 0);
  CHECK(ran.out == "==> log <==\na [2Jb\nc==> slurm-1234.out <==\nslurm says\n");
  CHECK(daemon.run({"jobs", "logs", "job-1", "--file", "slurm-1234.out"}).out == "slurm says\n");
  CHECK(json::parse(
            daemon.run({"jobs", "logs", "job-1", "--file", "slurm-1234.out", "--json"}).out)["next"] == 11);
}

TEST_CASE("a log is followed from where it was read to the end of the job, each byte once") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/jobs/job-1", kQueued);
  const std::string log = "GET /v1/jobs/job-1/log?file=log";
  daemon.on(log + "&offset=0&limit=262144", part("one\n", 4, 8, false));
  daemon.on(log + "&offset=4&limit=262144", part("two\n", 8, 8, false));
  daemon.on(log + "&offset=8&limit=262144", part("three\n", 14, 14, true));
  daemon.on(log + "&offset=14&limit=262144", part("", 14, 14, true));
  CHECK(daemon.run({"jobs", "logs", "job-1", "--file", "log", "--all", "--follow"}).out ==
        "one\ntwo\nthree\n");
  CHECK(daemon.run({"jobs", "logs", "job-1", "--file", "log", "--all"}).out == "one\ntwo\n");
}

TEST_CASE("a follower ends when the stage has ended and its files are gone") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/jobs/job-1", kQueued);
  daemon.on("GET /v1/jobs/job-1/log?file=log&limit=262144", part("one\n", 4, 4, false));
  daemon.on("GET /v1/jobs/job-1/log?file=log&offset=4&limit=262144",
            R"({"job":"job-1","file":"log","files":[],"from":0,"next":0,"size":0,"text":"","ended":true})");
  CHECK(daemon.run({"jobs", "logs", "job-1", "--file", "log", "--follow"}).out == "one\n");
}

TEST_CASE("what answers is printed as far as it goes when it is no job") {
  for (const char* answer :
       {"{}", R"({"place":7,"progress":[],"cancel":"x","error":1,"digests":[],"logs":3})"}) {
    ScriptedDaemon daemon;
    daemon.on("GET /v1/jobs/j", answer);
    daemon.on("GET /v1/jobs?limit=50", std::string(R"({"items":[)") + answer + "]}");
    CHECK(daemon.run({"jobs", "show", "j"}).exit_code == 0);
    CHECK(daemon.run({"jobs", "list"}).exit_code == 0);
    CHECK(daemon.run({"jobs", "logs", "j"}).exit_code == 0);
  }
}
