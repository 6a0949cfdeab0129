#include "daemon/jobs/slurm/chosen_runner.hpp"

#include <condition_variable>
#include <map>
#include <mutex>

#include "daemon/jobs/worker.hpp"
#include "tests/daemon/jobs/slurm/fake_slurm.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::FakeSlurm;
using driftgate::jobs::testing::TempFolder;

namespace {

JobSpec capture_job(const std::string& key, const std::string& script) {
  return {key, JobKind::capture, {}, to_json(CapturePayload{"sh", {"/bin/sh", "-c", script, "sh", "{out}"}})};
}

struct Chosen {
  Chosen(const FakeSlurm& slurm, const TempFolder& folder, RunnerChoice choice) {
    ChosenRunnerOptions options;
    options.choice = choice;
    options.slurm_kinds = {JobKind::drift, JobKind::capture};
    options.local.jobs_dir = folder.path / "data" / "jobs";
    options.local.worker = {DRIFTGATE_TEST_WORKER};
    options.slurm.jobs_dir = folder.path / "shared";
    options.slurm.access.bin_dir = slurm.bin();
    options.slurm.poll = std::chrono::milliseconds(20);
    options.slurm.settle = std::chrono::milliseconds(0);
    auto opened = open_chosen_runner(std::move(options));
    REQUIRE(opened.has_value());
    runner = std::move(*opened);
    runner->on_done([this](JobDone done) {
      const std::lock_guard guard(mutex);
      results[done.key] = std::move(done);
      changed.notify_all();
    });
  }
  JobDone wait(const std::string& key) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return results.contains(key); }));
    return results.at(key);
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, JobDone> results;
  std::unique_ptr<JobRunner> runner;
};

}  // namespace

TEST_CASE("where a new job goes follows from the choice, its kind, its ranks and its input") {
  ChosenRunnerOptions options;
  options.slurm_kinds = {JobKind::drift};
  options.slurm_from_bytes = 100;
  JobSpec spec{"p/s/1/drift", JobKind::drift, {}, "{}"};
  const auto goes = [&](std::uint64_t bytes) {
    return goes_to_slurm(options, spec, [bytes] { return bytes; });
  };
  CHECK_FALSE(goes(1'000));
  options.choice = RunnerChoice::slurm;
  CHECK(goes(0));
  options.choice = RunnerChoice::automatic;
  CHECK_FALSE(goes(100));
  CHECK(goes(101));
  spec.ranks = 2;
  CHECK(goes(0));
  spec.kind = JobKind::capture;
  CHECK_FALSE(goes(1'000));
}

TEST_CASE("the bytes that a job reads are those of the files that it names") {
  const TempFolder folder;
  (void)folder.file("roots/train", std::string(10, 'a'));
  (void)folder.file("roots/inf", std::string(20, 'a'));
  (void)folder.file("roots/folder/part", std::string(40, 'a'));
  DriftPayload drift{.train = "train",
                     .inf = "inf",
                     .corpus = "",
                     .contract = "{}",
                     .roots = {(folder.path / "roots").string()}};
  drift.floor_inf = DriftPayload::FloorPair{"inf", "missing"};
  CHECK(input_bytes({"k", JobKind::drift, {}, to_json(drift)}) == 30);
  const CapturePayload capture{"a",
                               {"/bin/sh", (folder.path / "roots" / "folder").string(), "{out}",
                                (folder.path / "roots/train").string()}};
  CHECK(input_bytes({"k", JobKind::capture, {}, to_json(capture)}) == 50);
  CHECK(input_bytes({"k", JobKind::drift, {}, "{}"}) == 0);
}

TEST_CASE("jobs stay where they began when the choice changes") {
  const FakeSlurm slurm;
  const TempFolder folder;
  const auto go = folder.path / "go", begun = folder.path / "begun";
  const auto here = capture_job("pr-1/s/1/capture", "touch " + begun.string() + "; until [ -e " +
                                                        go.string() + " ]; do sleep 0.05; done; echo x > $1");
  const auto there = capture_job("pr-2/s/1/capture", "true");
  {
    Chosen local(slurm, folder, RunnerChoice::local);
    REQUIRE(local.runner->start(here).has_value());
    FakeSlurm::eventually([&] { return std::filesystem::exists(begun); });
  }
  {
    Chosen remote(slurm, folder, RunnerChoice::slurm);
    REQUIRE(remote.runner->start(here).has_value());
    REQUIRE(remote.runner->start(there).has_value());
    FakeSlurm::eventually([&] { return slurm.has(1); });
    CHECK(slurm.get(1, "comment") == "driftgate/pr-2/s/1/capture");
    FakeSlurm::eventually([&] { return remote.runner->place(there.key)->state == "queued"; });
    CHECK(remote.runner->place(here.key)->runner == "local");
    CHECK(remote.runner->running() == 2);
    CHECK(remote.runner->folder(here.key) == (folder.path / "data/jobs/pr-1.s.1.capture").string());
    CHECK(remote.runner->folder(there.key) == (folder.path / "shared/pr-2.s.1.capture").string());
    std::ofstream(go) << "go";
    const auto done = remote.wait(here.key);
    CHECK(done.result.ok);
    CHECK(done.place->runner == "local");
  }
  Chosen local(slurm, folder, RunnerChoice::local);
  REQUIRE(local.runner->start(there).has_value());
  FakeSlurm::eventually([&] { return local.runner->place(there.key)->remote == "1"; });
  local.runner->cancel(there.key);
  CHECK(local.wait(there.key).result.error->code == schema::ErrorCode::conflict);
  CHECK(slurm.submitted() == 1);
  local.runner->forget("pr-");
  FakeSlurm::eventually([&] { return !std::filesystem::exists(folder.path / "data/jobs/pr-1.s.1.capture"); });
  FakeSlurm::eventually([&] { return !std::filesystem::exists(folder.path / "shared/pr-2.s.1.capture"); });
}

TEST_CASE("a job at Slurm whose folder no setting names any more is not started again elsewhere") {
  const FakeSlurm slurm;
  const TempFolder folder;
  const auto spec = capture_job("pr-1/s/1/capture", "true");
  std::string left;
  {
    Chosen remote(slurm, folder, RunnerChoice::slurm);
    REQUIRE(remote.runner->start(spec).has_value());
    FakeSlurm::eventually([&] { return slurm.has(1); });
    left = remote.runner->folder(spec.key);
  }
  ChosenRunnerOptions options;
  options.local.jobs_dir = folder.path / "data" / "jobs";
  options.slurm.jobs_dir = folder.path / "shared";
  CHECK(check_open_folders(options, {left}).has_value());
  options.slurm.jobs_dir = options.local.jobs_dir;
  const auto refused = check_open_folders(options, {(folder.path / "gone/pr-2").string(), left});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == schema::ErrorCode::conflict);
  CHECK(refused.error().message.find("set slurm.jobs_dir to " + (folder.path / "shared").string()) !=
        std::string::npos);
  std::ofstream(left + "/result.json") << "{}";
  CHECK(check_open_folders(options, {left}).has_value());
}
