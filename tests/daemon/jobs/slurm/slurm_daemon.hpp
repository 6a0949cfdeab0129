#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "daemon/jobs/job_folder.hpp"
#include "daemon/jobs/slurm/slurm_runner.hpp"
#include "daemon/jobs/slurm/submissions.hpp"
#include "tests/daemon/jobs/slurm/fake_slurm.hpp"

namespace driftgate::jobs::testing {

inline constexpr const char* kDriftKey = "pr-1/offline/1/drift";

/// A daemon's runner over the fake, and what it told.
struct Daemon {
  explicit Daemon(const FakeSlurm& slurm, const TempFolder& folder,
                  const std::function<void(SlurmRunnerOptions&)>& change = {}) {
    SlurmRunnerOptions options;
    options.jobs_dir = folder.path / "jobs";
    options.access.bin_dir = slurm.bin();
    options.worker = "/opt/driftgate";
    options.poll = std::chrono::milliseconds(20);
    options.settle = std::chrono::milliseconds(0);
    if (change) change(options);
    auto opened = open_slurm_runner(std::move(options));
    REQUIRE(opened.has_value());
    runner = std::move(*opened);
    runner->on_done([this](JobDone done) {
      const std::lock_guard guard(mutex);
      ++told[done.key];
      results[done.key] = std::move(done);
      changed.notify_all();
    });
  }
  JobDone wait(const std::string& key = kDriftKey) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return results.contains(key); }));
    return results.at(key);
  }
  void start(const std::string& key = kDriftKey) const { REQUIRE(runner->start(spec(key)).has_value()); }
  static JobSpec spec(const std::string& key = kDriftKey) { return {key, JobKind::drift, {}, R"({"x":1})"}; }
  [[nodiscard]] JobFolder folder(const std::string& key = kDriftKey) const {
    return JobFolder(runner->folder(key));
  }
  /// What a worker does at its end.
  void put_result(const std::string& key = kDriftKey) const {
    JobResult result;
    result.ok = true;
    result.summary = R"({"rows":3})";
    REQUIRE(folder(key).put("result.json", to_json(result)).has_value());
  }
  [[nodiscard]] std::string state(const std::string& key = kDriftKey) const {
    const auto place = runner->place(key);
    return place ? place->state : "";
  }
  [[nodiscard]] std::string reason(const std::string& key = kDriftKey) const {
    const auto place = runner->place(key);
    return place ? place->reason : "";
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, JobDone> results;
  std::map<std::string, int> told;
  std::unique_ptr<JobRunner> runner;
};

inline void check_error(const JobDone& done, schema::ErrorCode code, const std::string& said) {
  REQUIRE_FALSE(done.result.ok);
  CHECK(done.result.error->code == code);
  CHECK_MESSAGE(done.result.error->message.find(said) != std::string::npos, done.result.error->message);
}

inline SubmissionRecord record_of(const Daemon& daemon, const std::string& key = kDriftKey) {
  const auto record = read_submissions(daemon.folder(key));
  REQUIRE(record.has_value());
  return *record;
}

}  // namespace driftgate::jobs::testing
