#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/loop.hpp"
#include "daemon/pipeline/read/job_views.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

std::vector<json> listed(const Harness& h, const pipeline::JobFilter& filter) {
  const auto page = h.pipeline->jobs(filter, {});
  REQUIRE_MESSAGE(page.has_value(), (page ? "" : page.error().describe()));
  std::vector<json> items;
  for (const auto& item : page->items) items.push_back(json::parse(item.json));
  return items;
}

/// A promotion whose first drift job runs; the job.
json running_job(Harness& h, std::string& promotion) {
  h.set_up();
  promotion = h.request();
  const auto jobs = listed(h, {});
  REQUIRE(jobs.size() == 1);
  return jobs.front();
}

json shown(const Harness& h, const std::string& id, bool with_folder = false) {
  const auto view = h.pipeline->job(id, with_folder);
  REQUIRE_MESSAGE(view.has_value(), (view ? "" : view.error().describe()));
  return json::parse(view->json);
}

ErrorCode code_of(const schema::Result<pipeline::View>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().code;
}

}  // namespace

TEST_CASE("a job is shown with where it runs and how far it is, and at its end with what came of it") {
  Harness h;
  std::string promotion;
  h.runner.runs_at = {"slurm", "1234", "queued", "Priority", ""};
  const auto job = running_job(h, promotion);
  CHECK(job["promotion"] == promotion);
  CHECK(job["model"] == "m");
  CHECK(job["stage"] == "offline-numeric");
  CHECK(job["attempt"] == 1);
  CHECK(job["name"] == "drift");
  CHECK(job["kind"] == "drift");
  CHECK(job["state"] == "running");
  CHECK(job["place"] == json({{"runner", "slurm"},
                              {"remote", "1234"},
                              {"state", "queued"},
                              {"reason", "Priority"},
                              {"nodes", ""}}));
  CHECK(job["progress"] == json({{"done", 1}, {"total", 2}, {"unit", "rows"}, {"text", "half"}}));
  CHECK(job["ended_us"].is_null());
  CHECK(job["error"].is_null());
  CHECK(job["cancel"].is_null());
  const auto id = job["id"].get<std::string>();
  CHECK_FALSE(shown(h, id).contains("folder"));
  CHECK(shown(h, id, true)["folder"] == h.runner.folder(promotion + "/offline-numeric/1/drift"));
  CHECK(h.pipeline->figures().jobs == pipeline::JobCounts{{{"slurm", "queued"}, 1}});

  h.runner.runs_at = {"slurm", "1235", "running", "submitted again", "n[1-2]"};
  h.second();
  const auto ended = shown(h, id);
  CHECK(ended["state"] == "done");
  CHECK(ended["place"]["state"] == "ended");
  CHECK(ended["place"]["remote"] == "1235");
  CHECK(ended["place"]["nodes"] == "n[1-2]");
  CHECK(ended["place"]["reason"] == "submitted again");
  CHECK(ended["progress"].is_null());
  CHECK(ended["ended_us"].is_number());
  CHECK(ended["digests"].contains("table"));
  CHECK(code_of(h.pipeline->job("job-none", false)) == ErrorCode::not_found);
}

TEST_CASE("the promotion says where its job is and what it waits for") {
  Harness h;
  std::string promotion;
  h.runner.runs_at = {"slurm", "1234", "queued", "Priority", ""};
  const auto job = running_job(h, promotion);
  auto view = h.view(promotion);
  const auto progress = view["stages"][0]["progress"];
  CHECK(progress["text"] == "drift: half; queued at Slurm as 1234: Priority");
  CHECK(progress["job"] == job["id"]);
  CHECK(progress["place"]["reason"] == "Priority");
  CHECK(view["why"] == "Offline-numeric is under way: the job drift is queued at Slurm as 1234: Priority.");
  const auto shown_before = view["evidence_shown"];
  h.runner.runs_at = {"slurm", "1234", "running", "", "n1"};
  view = h.view(promotion);
  CHECK(view["stages"][0]["progress"]["text"] == "drift: half; runs at Slurm as 1234 on n1");
  CHECK(view["why"] ==
        "Offline-numeric is under way: the job drift runs at Slurm as 1234 on n1, 1 of 2 rows (half).");
  CHECK(view["evidence_shown"] == shown_before);
  h.runner.runs_at = {"local", "4711", "running", "", ""};
  CHECK(h.view(promotion)["stages"][0]["progress"]["text"] == "drift: half");
}

TEST_CASE("jobs are listed by state, model, promotion and kind") {
  Harness h;
  std::string promotion;
  const auto job = running_job(h, promotion);
  CHECK(listed(h, {.state = "running"}).size() == 1);
  CHECK(listed(h, {.state = "done"}).empty());
  CHECK(listed(h, {.model = "m", .promotion = promotion, .kind = "drift"}).size() == 1);
  CHECK(listed(h, {.model = "other"}).empty());
  CHECK(listed(h, {.kind = "rescore"}).empty());
  for (const pipeline::JobFilter& filter : {pipeline::JobFilter{.state = "lost"}, {.kind = "dance"}}) {
    const auto page = h.pipeline->jobs(filter, {});
    REQUIRE_FALSE(page.has_value());
    CHECK(page.error().code == ErrorCode::invalid_argument);
  }
  CHECK_FALSE(h.pipeline->jobs({}, {.after = "", .limit = 501}).has_value());
  CHECK_FALSE(h.pipeline->jobs({}, {.after = "", .limit = 0}).has_value());
  h.second();
  const auto first = h.pipeline->jobs({}, {.after = "", .limit = 1});
  REQUIRE(first->items.size() == 1);
  CHECK(first->next == first->items.front().id);
  CHECK(h.pipeline->jobs({}, {.after = first->next, .limit = 1})->items.front().id == job["id"]);
}

TEST_CASE("a cancelled job ends with the name of who asked, and so does its promotion") {
  Harness h;
  std::string promotion;
  const auto id = running_job(h, promotion)["id"].get<std::string>();
  const auto answer = h.pipeline->cancel_job("anna", id, "the corpus is the wrong one");
  REQUIRE_MESSAGE(answer.has_value(), (answer ? "" : answer.error().describe()));
  const auto asked = json::parse(answer->json);
  CHECK(asked["state"] == "running");
  CHECK(asked["cancel"]["by"] == "anna");
  CHECK(asked["cancel"]["reason"] == "the corpus is the wrong one");
  const auto key = promotion + "/offline-numeric/1/drift";
  CHECK(h.runner.cancelled == std::vector{key});
  // Asked again, by somebody else: it is anna's.
  REQUIRE(h.pipeline->cancel_job("olga", id, "me too").has_value());
  CHECK(shown(h, id)["cancel"]["by"] == "anna");
  CHECK(h.runner.cancelled.size() == 1);
  h.second();
  const auto ended = shown(h, id);
  CHECK(ended["state"] == "cancelled");
  CHECK(ended["error"] ==
        json({{"code", "conflict"}, {"message", "cancelled by anna: the corpus is the wrong one"}}));
  const auto entries = h.entries(promotion, "job_finished");
  REQUIRE(entries.size() == 1);
  CHECK(entries[0]["actor"] == "anna");
  CHECK(entries[0]["body"]["error"]["message"] == "cancelled by anna: the corpus is the wrong one");
  CHECK(h.state(promotion) == "errored");
  CHECK(h.view(promotion)["reason"].get<std::string>().find(
            "cancelled by anna: the corpus is the wrong one") != std::string::npos);
  CHECK(code_of(h.pipeline->cancel_job("anna", id, "again")) == ErrorCode::conflict);
  CHECK(code_of(h.pipeline->cancel_job("anna", "job-none", "what")) == ErrorCode::not_found);
}

TEST_CASE("a job that succeeds after it was cancelled ends as cancelled all the same") {
  Harness h;
  std::string promotion;
  const auto id = running_job(h, promotion)["id"].get<std::string>();
  REQUIRE(h.pipeline->cancel_job("anna", id, "enough").has_value());
  h.runner.spare = true;
  h.second();
  CHECK(shown(h, id)["state"] == "cancelled");
  CHECK(h.state(promotion) == "errored");
}

TEST_CASE("a daemon that dies at any point of a cancelling ends the job under the same name") {
  for (const bool told : {false, true}) {
    CAPTURE(told);
    Harness h;
    std::string promotion;
    const auto id = running_job(h, promotion)["id"].get<std::string>();
    if (!told) h.runner.deaf = true;  // it dies after the COMMIT, before the runner is told
    REQUIRE(h.pipeline->cancel_job("anna", id, "enough").has_value());
    h.runner.cancelled.clear();
    h.runner.deaf = false;
    h.restart();
    CHECK(h.runner.cancelled == std::vector{promotion + "/offline-numeric/1/drift"});
    CHECK(shown(h, id)["cancel"]["by"] == "anna");
    h.second();
    CHECK(shown(h, id)["error"]["message"] == "cancelled by anna: enough");
    CHECK(h.entries(promotion, "job_finished").size() == 1);
    CHECK(h.state(promotion) == "errored");
  }
}

TEST_CASE("a cancelling that cannot be stored changes nothing") {
  Harness h;
  std::string promotion;
  const auto id = running_job(h, promotion)["id"].get<std::string>();
  h.committer->fail_at = h.committer->count;
  CHECK(code_of(h.pipeline->cancel_job("anna", id, "enough")) == ErrorCode::storage_full);
  CHECK(h.runner.cancelled.empty());
  CHECK(shown(h, id)["cancel"].is_null());
}

TEST_CASE(
    "the jobs of a promotion that is aborted end with it, and whoever had cancelled one is in the log") {
  for (const bool cancelled : {false, true}) {
    CAPTURE(cancelled);
    Harness h;
    h.runner.runs_at = {"slurm", "8", "running", "", "n1", {"7", "8"}};
    std::string promotion;
    const auto id = running_job(h, promotion)["id"].get<std::string>();
    if (cancelled) REQUIRE(h.pipeline->cancel_job("anna", id, "enough").has_value());
    REQUIRE(h.pipeline->abort("olga", promotion, "changed our mind").has_value());
    const auto job = shown(h, id);
    CHECK(job["state"] == "cancelled");
    CHECK(job["error"]["message"] ==
          (cancelled ? "cancelled by anna: enough" : "its stage ended without it"));
    CHECK(listed(h, {.state = "running"}).empty());
    const auto entries = h.entries(promotion, "job_finished");
    REQUIRE(entries.size() == 1);
    CHECK(entries[0]["actor"] == (cancelled ? "anna" : "driftgate"));
    CHECK(entries[0]["body"]["ok"] == false);
    CHECK(entries[0]["body"]["slurm_jobs"] == json({"7", "8"}));
    CHECK(h.runner.running() == 0);
  }
}

TEST_CASE("a runner is told which jobs the daemon before left, and nothing of jobs that nobody stored") {
  Harness h;
  std::string promotion;
  const auto id = running_job(h, promotion)["id"].get<std::string>();
  const auto key = promotion + "/offline-numeric/1/drift";
  h.restart();
  REQUIRE(h.runner.fate);
  CHECK(h.runner.fate(key) == jobs::JobFate::keep);
  for (const auto* other :
       {"/offline-numeric/1/other", "/offline-numeric/2/drift", "/offline-numeric/01/drift", "/"})
    CHECK(h.runner.fate(promotion + other) == jobs::JobFate::keep);
  CHECK(h.runner.fate("pr-none/offline-numeric/1/drift") == jobs::JobFate::keep);
  REQUIRE(h.pipeline->abort("olga", promotion, "changed our mind").has_value());
  CHECK(shown(h, id)["state"] == "cancelled");
  h.restart();
  CHECK(h.runner.fate(key) == jobs::JobFate::forget);
}

TEST_CASE("an attempt that follows another cancels what still runs for that one, and keeps its folder") {
  Harness h;
  std::string promotion;
  (void)running_job(h, promotion);
  h.runner.make = [](const jobs::JobSpec&, const std::string&) {
    return jobs::failed(ErrorCode::unavailable, "the node is busy");
  };
  const auto key = promotion + "/offline-numeric/1/drift";
  h.second();
  REQUIRE(h.state(promotion) == "running");
  h.restart();
  CHECK(h.runner.fate(key) == jobs::JobFate::cancel);
}

TEST_CASE("an error that names the job's folder is stored without it") {
  Harness h;
  std::string promotion;
  const auto id = running_job(h, promotion)["id"].get<std::string>();
  const auto folder = h.runner.folder(promotion + "/offline-numeric/1/drift");
  h.behaviour.capture_error = "cannot write " + folder + "/table.bin";
  h.second();
  CHECK(shown(h, id)["error"]["message"] == "cannot write the job's folder/table.bin");
  CHECK(h.entries(promotion, "job_finished")[0]["body"]["error"]["message"] ==
        "cannot write the job's folder/table.bin");
  CHECK(h.view(promotion).dump().find(folder) == std::string::npos);
}

TEST_CASE("what a job prints is read from where the reader is, and a file that it has not is named") {
  Harness h;
  std::string promotion;
  const auto id = running_job(h, promotion)["id"].get<std::string>();
  const auto log = [&](pipeline::JobLogRequest request) {
    request.job = id;
    const auto view = h.pipeline->job_log(request);
    REQUIRE_MESSAGE(view.has_value(), (view ? "" : view.error().describe()));
    return json::parse(view->json);
  };
  CHECK(log({})["files"].empty());
  CHECK(log({.file = "log", .offset = 14})["files"].empty());
  CHECK(log({})["text"] == "");
  const std::filesystem::path folder = h.runner.folder(promotion + "/offline-numeric/1/drift");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "log") << "one\ntwo\n";
  std::ofstream(folder / "slurm-9.out") << "nine";
  std::ofstream(folder / "slurm-10.out") << "ten";
  std::ofstream(folder / "spec.json") << "{}";
  CHECK(shown(h, id)["logs"] == json({"log", "slurm-9.out", "slurm-10.out"}));
  CHECK(log({})["file"] == "slurm-10.out");
  CHECK(log({})["text"] == "ten");
  const auto end = log({.file = "log", .limit = 4});
  CHECK(end["text"] == "two\n");
  CHECK(end["from"] == 4);
  CHECK(end["next"] == 8);
  CHECK(end["size"] == 8);
  CHECK(end["ended"] == false);
  CHECK(log({.file = "log", .offset = 0, .limit = 3})["text"] == "one");
  CHECK(log({.file = "log", .offset = 3})["text"] == "\ntwo\n");
  CHECK(log({.file = "log", .offset = 8})["text"] == "");
  CHECK(log({.file = "log", .offset = 99})["next"] == 8);
  for (const char* file : {"spec.json", "../log", "slurm-11.out"})
    CHECK(code_of(h.pipeline->job_log({.job = id, .file = file})) == ErrorCode::not_found);
  CHECK(code_of(h.pipeline->job_log({.job = id, .limit = 0})) == ErrorCode::invalid_argument);
  CHECK(code_of(h.pipeline->job_log({.job = id, .limit = pipeline::kMaxJobLogBytes + 1})) ==
        ErrorCode::invalid_argument);
}

TEST_CASE("a place is said in words only where there is something to say") {
  using pipeline::place_text;
  CHECK(place_text({"local", "1", "running", "", ""}).empty());
  CHECK(place_text({"local", "", "waiting", "all 2 slots are taken", ""}) == "waits: all 2 slots are taken");
  CHECK(place_text({"slurm", "", "waiting", "", ""}) == "waits to be submitted to Slurm");
  CHECK(place_text({"slurm", "7", "running", "the controller does not answer", "n1"}) ==
        "runs at Slurm as 7 on n1: the controller does not answer");
  CHECK(place_text({"slurm", "7", "ended", "", "n1"}).empty());
}

TEST_CASE("what hangs beside the loop is given up, and what waited behind it does not begin later") {
  pipeline::Loop loop(true);
  loop.run([] { return std::int64_t{3'600'000'000}; });
  std::promise<void> hangs, release;
  loop.post([&] {
    hangs.set_value();
    release.get_future().wait();
  });
  hangs.get_future().wait();
  const std::chrono::milliseconds soon(1);
  auto began = std::make_shared<std::atomic<bool>>(false);
  const auto given_up = loop.call_within<int>(soon, [began] {
    *began = true;
    return schema::Result<int>(2);
  });
  REQUIRE_FALSE(given_up.has_value());
  CHECK(given_up.error().code == ErrorCode::unavailable);
  release.set_value();
  CHECK(loop.call_within<int>(std::chrono::minutes(2), [] { return schema::Result<int>(3); }) == 3);
  CHECK_FALSE(*began);
  loop.stop();
}
