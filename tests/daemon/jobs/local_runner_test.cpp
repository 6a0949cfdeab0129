#include "daemon/jobs/local_runner.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "daemon/jobs/job_folder.hpp"
#include "daemon/jobs/worker.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using schema::ErrorCode;

namespace {

/// Collects what a runner tells.
struct Told {
  void operator()(JobDone done) {
    const std::lock_guard guard(mutex);
    results[done.key] = std::move(done.result);
    changed.notify_all();
  }
  JobResult wait(const std::string& key) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return results.contains(key); }));
    return results.at(key);
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, JobResult> results;
};

struct Runner {
  explicit Runner(const TempFolder& folder) {
    LocalRunnerOptions options;
    options.jobs_dir = folder.path / "jobs";
    options.worker = {DRIFTGATE_TEST_WORKER};
    auto opened = open_local_runner(options);
    REQUIRE(opened.has_value());
    runner = std::move(*opened);
    runner->on_done([this](JobDone done) { told(std::move(done)); });
  }
  Told told;
  std::unique_ptr<JobRunner> runner;
};

JobSpec shell_job(const std::string& key, const std::string& script) {
  JobSpec spec{
      key, JobKind::capture, {}, to_json(CapturePayload{"sh", {"/bin/sh", "-c", script, "sh", "{out}"}})};
  spec.limits.wall_ms = 100'000;
  return spec;
}

}  // namespace

TEST_CASE("a capture job runs its adapter and states the capture's digest") {
  const TempFolder folder;
  Runner r(folder);
  REQUIRE(r.runner->start(shell_job("p/s/1/capture", "echo hello > $1")).has_value());
  const auto result = r.told.wait("p/s/1/capture");
  CHECK_MESSAGE(result.ok, (result.error ? result.error->describe() : ""));
  CHECK(result.digests.at("capture") ==
        file_digest(r.runner->folder("p/s/1/capture") + "/" + kCaptureFile).value());
  CHECK(result.digests.contains("adapter"));
}

TEST_CASE("an adapter that fails, or writes nothing, is an error that quotes its output") {
  const TempFolder folder;
  Runner r(folder);
  REQUIRE(r.runner->start(shell_job("a", "echo no such device; exit 9")).has_value());
  REQUIRE(r.runner->start(shell_job("b", "exit 0")).has_value());
  CHECK(r.told.wait("a").error->message.find("no such device") != std::string::npos);
  CHECK(r.told.wait("b").error->code == ErrorCode::not_found);
}

TEST_CASE("an adapter's last words that are not UTF-8 do not hide that it failed") {
  const TempFolder folder;
  Runner r(folder);
  REQUIRE(r.runner->start(shell_job("a", "printf 'Ger\\344t fehlt'; exit 9")).has_value());
  const auto result = r.told.wait("a");
  REQUIRE(result.error.has_value());
  CHECK(result.error->code == ErrorCode::unavailable);
  CHECK(result.error->message.find("Ger\xEF\xBF\xBDt fehlt") != std::string::npos);
}

TEST_CASE("a worker outlives its runner and the next runner tells its result") {
  const TempFolder folder;
  const auto go = folder.path / "go";
  const auto spec =
      shell_job("p/s/1/capture", "until [ -e " + go.string() + " ]; do sleep 0.05; done; echo x > $1");
  {
    Runner first(folder);
    REQUIRE(first.runner->start(spec).has_value());
    const JobFolder job(first.runner->folder(spec.key));
    for (int i = 0; i < 2'000 && job.number_in("group") == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    REQUIRE(job.number_in("group") != 0);
  }
  Runner second(folder);
  REQUIRE(second.runner->start(spec).has_value());
  CHECK(second.runner->running() == 1);
  std::ofstream(go) << "go";
  CHECK(second.told.wait(spec.key).ok);
  Runner third(folder);
  REQUIRE(third.runner->start(spec).has_value());
  CHECK(third.told.wait(spec.key).ok);
}

TEST_CASE("a worker that the daemon before could not end is ended, and its folder goes when it may") {
  const TempFolder folder;
  const auto go = (folder.path / "go").string();
  const std::string wait = "until [ -e " + go + " ]; do sleep 0.05; done; echo x > $1";
  std::vector<std::string> left;
  {
    Runner first(folder);
    for (const auto* key : {"pr-1/s/1/capture", "pr-2/s/1/capture"}) {
      REQUIRE(first.runner->start(shell_job(key, wait)).has_value());
      left.push_back(first.runner->folder(key));
      // A worker that has written its number and holds its lock can be found again.
      while (JobFolder(left.back()).number_in("pid") == 0) std::this_thread::yield();
    }
  }
  Runner second(folder);
  second.runner->drop_left(
      [](const std::string& key) { return key.starts_with("pr-1/") ? JobFate::forget : JobFate::cancel; });
  CHECK_FALSE(std::filesystem::exists(left[0]));
  CHECK(std::filesystem::exists(left[1]));
  while (!JobFolder(left[1]).lock_is_free()) std::this_thread::yield();
  CHECK_FALSE(std::filesystem::exists(left[1] + "/result.json"));
}

TEST_CASE("a cancelled job is killed with its adapter and ends with an error") {
  const TempFolder folder;
  Runner r(folder);
  REQUIRE(r.runner->start(shell_job("c", "sleep 1000")).has_value());
  const JobFolder job(r.runner->folder("c"));
  for (int i = 0; i < 2'000 && job.number_in("group") == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  r.runner->cancel("c");
  CHECK(r.told.wait("c").error->message.find("cancelled") != std::string::npos);
  CHECK(job.lock_is_free());
}

TEST_CASE("a worker that ends without a result is an error") {
  const TempFolder folder;
  LocalRunnerOptions options;
  options.jobs_dir = folder.path / "jobs";
  options.worker = {"/bin/false"};
  auto runner = open_local_runner(options);
  REQUIRE(runner.has_value());
  Told told;
  (*runner)->on_done([&](JobDone done) { told(std::move(done)); });
  REQUIRE((*runner)->start(shell_job("d", "true")).has_value());
  CHECK(told.wait("d").error->message.find("without a result") != std::string::npos);
  runner->reset();
}

TEST_CASE("a drift job measures the vectors and its table has the digest that it states") {
  const TempFolder folder;
  Runner r(folder);
  const std::string contract =
      R"({"apiVersion":"driftgate/v1","kind":"KernelContract","metadata":{"name":"t"},"kernels":{"train":{"ref":"a"},"inf":{"ref":"b"}},"numerical":[{"id":"tv","metric":"tv","aggregate":"mean","max":0.1}]})";
  const auto vectors = std::filesystem::canonical("tests/vectors").string();
  DriftPayload payload;
  payload.train = vectors + "/tiny_f32.safetensors";
  payload.inf = vectors + "/tiny_int8.safetensors";
  payload.corpus = vectors + "/tiny_corpus.jsonl";
  payload.contract = contract;
  payload.roots = {vectors};
  REQUIRE(r.runner->start({"drift", JobKind::drift, {}, to_json(payload)}).has_value());
  const auto result = r.told.wait("drift");
  REQUIRE_MESSAGE(result.ok, (result.error ? result.error->describe() : ""));
  CHECK(result.digests.at("table") == file_digest(r.runner->folder("drift") + "/table.bin").value());
  CHECK(result.digests.at("train") == file_digest(payload.train).value());
  CHECK(r.runner->progress("drift").has_value());
  payload.train = "/etc/passwd";
  REQUIRE(r.runner->start({"drift2", JobKind::drift, {}, to_json(payload)}).has_value());
  CHECK(r.told.wait("drift2").error->code == ErrorCode::forbidden);
}
