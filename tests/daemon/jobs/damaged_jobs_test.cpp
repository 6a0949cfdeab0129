#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "daemon/jobs/job_folder.hpp"
#include "daemon/jobs/local_runner.hpp"
#include "daemon/jobs/worker.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using nlohmann::json;
using schema::ErrorCode;

namespace {

/// A runner over a folder of jobs as an earlier process may have left it, and what it tells.
struct World {
  TempFolder folder;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, JobResult> told;
  std::unique_ptr<JobRunner> runner;

  explicit World(std::size_t slots = 2, std::vector<std::string> worker = {DRIFTGATE_TEST_WORKER},
                 std::size_t queue_limit = 256) {
    auto opened = open_local_runner({folder.path / "jobs", std::move(worker), slots, queue_limit});
    REQUIRE(opened);
    runner = std::move(*opened);
    listen();
  }
  ~World() { runner.reset(); }
  void listen() {
    runner->on_done([this](JobDone done) {
      const std::scoped_lock lock(mutex);
      told[done.key] = std::move(done.result);
      changed.notify_all();
    });
  }
  JobResult wait(const std::string& key) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return told.contains(key); }));
    return told.at(key);
  }
  [[nodiscard]] JobFolder made(const std::string& key) const {
    JobFolder job(runner->folder(key));
    std::filesystem::create_directories(job.path());
    return job;
  }
};

JobSpec spec_of(const std::string& key, const std::string& script = "echo x > \"$1\"") {
  return {key, JobKind::capture, {}, to_json(CapturePayload{"sh", {"/bin/sh", "-c", script, "sh", "{out}"}})};
}

JobResult success() {
  JobResult result;
  result.ok = true;
  return result;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string result_in(const JobFolder& job) {
  const auto text = job.get("result.json");
  REQUIRE(text);
  const auto result = job_result_from_json(*text);
  REQUIRE(result);
  REQUIRE(result->error.has_value());
  return std::string(schema::to_string(result->error->code)) + ": " + result->error->describe();
}

}  // namespace

TEST_CASE("a result that was stored is told again, and the job does not run a second time") {
  World world;
  const auto job = world.made("k");
  JobResult stored = success();
  stored.summary = R"({"rows":7})";
  REQUIRE(job.put("result.json", to_json(stored)));
  REQUIRE(world.runner->start(spec_of("k")));
  CHECK(world.wait("k").summary == stored.summary);
  CHECK_FALSE(std::filesystem::exists(job.file("spec.json")));
}

TEST_CASE("a stored result that is damaged is an error that says so, not a run on top of it") {
  const std::pair<std::string, const char*> damages[] = {
      {"", "result.json is not valid JSON"},
      {"{\"ok\":true", "result.json is not valid JSON"},
      {"{\"ok\":false}", "the job failed but not why"},
      {std::string(kMaxResultBytes + 1, ' '), "result.json is larger than 8388608 bytes"},
  };
  for (const auto& [text, said] : damages) {
    CAPTURE(said);
    World world;
    const auto job = world.made("k");
    REQUIRE(job.put("result.json", text));
    REQUIRE(job.put("pid", "999999"));
    REQUIRE(world.runner->start(spec_of("k")));
    const auto result = world.wait("k");
    REQUIRE_FALSE(result.ok);
    CAPTURE(result.error->describe());
    CHECK(has(result.error->describe(), said));
    CHECK_FALSE(std::filesystem::exists(job.file("spec.json")));
  }
}

TEST_CASE("a worker that died without a result is told with its log, whatever is left of it") {
  World world;
  const auto died = world.made("died");
  REQUIRE(died.put("pid", "999999"));
  REQUIRE(world.runner->start(spec_of("died")));
  const auto result = world.wait("died");
  CHECK(result.error->code == ErrorCode::internal);
  CHECK(has(result.error->message, "ended without a result; its log is " + died.file("log")));
  // It holds its lock and has not written its number: nobody to wait for, and nobody to kill.
  const auto young = world.made("young");
  const auto held = young.lock();
  REQUIRE(held);
  REQUIRE(world.runner->start(spec_of("young")));
  CHECK(has(world.wait("young").error->message, "ended without a result"));
}

TEST_CASE("a folder that holds only a half-written spec is a job that never began: it is run") {
  World world;
  const auto job = world.made("k");
  (void)world.folder.file("jobs/k/spec.json.tmp", "{\"key\":\"k\",\"li");
  (void)world.folder.file("jobs/k/lock", "");
  REQUIRE(world.runner->start(spec_of("k")));
  CHECK(world.wait("k").ok);
}

TEST_CASE("a job whose folder cannot be made, or whose worker is gone, ends with an error that is told") {
  World world(2, {"/nowhere/worker"});
  (void)world.folder.file("jobs/taken", "a file");
  REQUIRE(world.runner->start(spec_of("taken")));
  const auto taken = world.wait("taken");
  CHECK(taken.error->code == ErrorCode::io);
  CHECK(has(taken.error->message, "taken/spec.json.tmp: Not a directory"));
  REQUIRE(world.runner->start(spec_of("k")));
  CHECK(has(world.wait("k").error->message, "ended without a result"));
  CHECK(world.runner->running() == 0);
}

TEST_CASE("jobs that wait are counted, refused beyond the limit, and told when they are cancelled") {
  World world(0, {DRIFTGATE_TEST_WORKER}, 2);
  REQUIRE(world.runner->start(spec_of("p/1/a")));
  REQUIRE(world.runner->start(spec_of("p/1/a")));
  REQUIRE(world.runner->start(spec_of("q/1/b")));
  CHECK(world.runner->running() == 2);
  const auto third = world.runner->start(spec_of("q/1/c"));
  REQUIRE_FALSE(third);
  CHECK(third.error().code == ErrorCode::unavailable);
  CHECK(third.error().message == "2 jobs wait already; try later");
  world.runner->cancel("q/1/b");
  const auto cancelled = world.wait("q/1/b");
  CHECK(cancelled.error->code == ErrorCode::conflict);
  CHECK(cancelled.error->message == "the job was cancelled before it started");
  world.runner->cancel("nobody");
  CHECK(world.runner->start(spec_of("q/1/c")));
  world.runner->forget("p/");
  CHECK(world.runner->running() == 1);
}

TEST_CASE("what is forgotten is gone from the disk, and what only begins alike is not") {
  World world;
  for (const char* key : {"pr-1/s/1/a", "pr-1/t/1/b", "pr-10/s/1/a", "pr-2/s/1/a"})
    (void)world.made(key).put("result.json", "{}");
  world.runner->forget("pr-1/");
  CHECK_FALSE(std::filesystem::exists(world.runner->folder("pr-1/s/1/a")));
  CHECK_FALSE(std::filesystem::exists(world.runner->folder("pr-1/t/1/b")));
  CHECK(std::filesystem::exists(world.runner->folder("pr-10/s/1/a")));
  CHECK(std::filesystem::exists(world.runner->folder("pr-2/s/1/a")));
}

TEST_CASE("no key leads out of the folder of jobs") {
  const World world;
  const auto jobs = std::filesystem::canonical(world.folder.path / "jobs");
  for (const char* key : {"../../etc/passwd", "/etc/passwd", "a/../../b", "pr-1/s\n/1", "ä/1/x", "a b"}) {
    CAPTURE(key);
    const std::filesystem::path folder = world.runner->folder(key);
    CHECK(folder.parent_path() == jobs);
    CHECK(folder.lexically_normal() == folder);
  }
}

TEST_CASE("results wait for somebody to be told, and nobody is called any more who was replaced") {
  World world;
  world.runner->on_done({});
  REQUIRE(world.made("k").put("result.json", to_json(success())));
  REQUIRE(world.runner->start(spec_of("k")));
  {
    const std::scoped_lock lock(world.mutex);
    CHECK(world.told.empty());
  }
  world.listen();
  CHECK(world.wait("k").ok);
}

TEST_CASE("a folder for jobs that cannot be made is an error with its name") {
  const TempFolder folder;
  const auto runner = open_local_runner({folder.file("file", "") + "/jobs"});
  REQUIRE_FALSE(runner);
  CHECK(runner.error().code == ErrorCode::io);
  CHECK(has(runner.error().message, "file/jobs: Not a directory"));
}

TEST_CASE("a worker whose spec is missing or damaged leaves a result that says what is wrong") {
  const std::pair<std::string, const char*> specs[] = {
      {"", "invalid_document: spec.json is not valid JSON"},
      {"{}", "invalid_document: spec.json: "},
      {R"({"key":"k","kind":"defrag","limits":{},"payload":{}})", "unknown kind 'defrag'"},
  };
  for (const auto& [text, said] : specs) {
    const TempFolder folder;
    (void)folder.file("spec.json", text);
    CHECK(run_worker(folder.path.string()) == 0);
    CHECK(has(result_in(JobFolder(folder.path)), said));
  }
  const TempFolder empty;
  CHECK(run_worker(empty.path.string()) == 0);
  CHECK(has(result_in(JobFolder(empty.path)), "not_found: "));
  for (const JobKind kind : {JobKind::drift, JobKind::capture, JobKind::rescore}) {
    const TempFolder folder;
    (void)folder.file("spec.json", to_json(JobSpec{"k", kind, {}, R"({"odd":1})"}));
    CHECK(run_worker(folder.path.string()) == 0);
    CHECK(has(result_in(JobFolder(folder.path)), "invalid_document: the job's payload: "));
  }
}

TEST_CASE("a worker that cannot leave a result, or whose job another one does, ends with 74") {
  const TempFolder folder;
  CHECK(run_worker((folder.path / "none").string()) == 74);
  const JobFolder job(folder.path);
  {
    const auto held = job.lock();
    REQUIRE(held);
    CHECK(run_worker(folder.path.string()) == 74);
    CHECK(job.get("result.json").error().code == ErrorCode::not_found);
  }
  std::filesystem::create_directory(job.file("result.json.tmp"));
  CHECK(run_worker(folder.path.string()) == 74);
}
