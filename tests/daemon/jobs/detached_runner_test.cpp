#include "daemon/jobs/detached_runner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

using namespace driftgate;
using namespace driftgate::jobs;
using schema::ErrorCode;

namespace {

/// What the hanging runner was asked, and whether its disk answers; outlives it.
struct Disk {
  void touch(const std::string& what) {
    std::unique_lock lock(mutex);
    asked.push_back(what);
    changed.notify_all();
    changed.wait(lock, [&] { return answers; });
  }
  void answer() {
    const std::lock_guard guard(mutex);
    answers = true;
    changed.notify_all();
  }
  void wait_for(const std::string& what) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(120),
                             [&] { return std::ranges::find(asked, what) != asked.end(); }));
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool answers = true;
  std::vector<std::string> asked;
};

/// Every call but `folder` waits for the disk.
class DiskRunner final : public JobRunner {
 public:
  explicit DiskRunner(Disk& disk) : disk_(disk) {}
  void on_done(std::function<void(JobDone)> callback) override { callback_ = std::move(callback); }
  schema::Result<void> start(const JobSpec& spec) override {
    disk_.touch("start " + spec.key);
    if (full) return schema::fail(ErrorCode::unavailable, "it is full");
    return {};
  }
  void cancel(const std::string& key) override {
    disk_.touch("cancel " + key);
    callback_(
        {key, failed(ErrorCode::conflict, "the job was cancelled"), JobPlace{"slurm", "7", "ended", "", ""}});
  }
  std::optional<JobProgress> progress(const std::string& key) override {
    disk_.touch("progress " + key);
    return JobProgress{1, 2, "rows", ""};
  }
  std::optional<JobPlace> place(const std::string& key) override {
    disk_.touch("place " + key);
    return JobPlace{"slurm", "7", "running", "", ""};
  }
  void forget(const std::string& prefix) override { disk_.touch("forget " + prefix); }
  void drop_left(FateOf fate_of) override {
    disk_.touch("drop_left");
    fate_of("p/s/1/left");
  }
  std::size_t running() const override { return 0; }
  std::string folder(const std::string& key) const override { return "/jobs/" + key; }

  std::atomic<bool> full = false;

 private:
  Disk& disk_;
  std::function<void(JobDone)> callback_;
};

JobSpec spec_of(const std::string& key) {
  return {key, JobKind::drift, {}, "{}"};
}

}  // namespace

TEST_CASE("no call of a detached runner waits while the disk of its jobs hangs, and none is lost") {
  Disk disk;
  disk.answers = false;
  std::atomic<bool> asked_for_fate = false;
  {
    const auto runner = detached(std::make_unique<DiskRunner>(disk));
    REQUIRE(runner->start(spec_of("p/s/1/drift")).has_value());
    disk.wait_for("start p/s/1/drift");
    // From here on the thread hangs.
    REQUIRE(runner->start(spec_of("p/s/1/other")).has_value());
    CHECK(runner->running() == 2);
    CHECK(runner->folder("p/s/1/other") == "/jobs/p/s/1/other");
    CHECK_FALSE(runner->place("p/s/1/drift").has_value());
    CHECK_FALSE(runner->progress("p/s/1/drift").has_value());
    runner->cancel("p/s/1/drift");
    runner->drop_left([&](const std::string& key) {
      asked_for_fate = key == "p/s/1/left";
      return JobFate::keep;
    });
    disk.answer();
    disk.wait_for("drop_left");
    // At the end cancels and forgets are carried out, whatever the thread is at.
    runner->cancel("p/s/1/other");
    runner->forget("p/");
    CHECK(runner->running() == 0);
  }
  CHECK(asked_for_fate);
  std::vector<std::string> orders;
  for (const auto& asked : disk.asked)
    if (!asked.starts_with("place") && !asked.starts_with("progress")) orders.push_back(asked);
  CHECK(orders == std::vector<std::string>{"start p/s/1/drift", "start p/s/1/other", "cancel p/s/1/drift",
                                           "drop_left", "cancel p/s/1/other", "forget p/"});
}

TEST_CASE("a detached runner shows what it saw last, and the end of a job until it is forgotten") {
  Disk disk;
  const auto runner = detached(std::make_unique<DiskRunner>(disk));
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<JobDone> told;
  runner->on_done([&](JobDone done) {
    const std::lock_guard guard(mutex);
    told.push_back(std::move(done));
    changed.notify_all();
  });
  REQUIRE(runner->start(spec_of("p/s/1/drift")).has_value());
  REQUIRE(runner->start(spec_of("p/s/1/drift")).has_value());
  disk.wait_for("progress p/s/1/drift");
  runner->cancel("p/s/1/drift");
  {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return !told.empty(); }));
  }
  CHECK(told.front().key == "p/s/1/drift");
  CHECK(runner->place("p/s/1/drift")->state == "ended");
  CHECK(runner->place("p/s/1/drift")->remote == "7");
  CHECK_FALSE(runner->progress("p/s/1/drift").has_value());
  CHECK(runner->running() == 0);
  CHECK(std::ranges::count(disk.asked, "start p/s/1/drift") == 1);
  runner->forget("p/");
  CHECK_FALSE(runner->place("p/s/1/drift").has_value());
  runner->on_done({});
}

TEST_CASE("a start for which there is no room is tried again, and can be cancelled meanwhile") {
  Disk disk;
  auto inner = std::make_unique<DiskRunner>(disk);
  auto& full = inner->full;
  full = true;
  const auto runner = detached(std::move(inner));
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<JobDone> told;
  runner->on_done([&](JobDone done) {
    const std::lock_guard guard(mutex);
    told.push_back(std::move(done));
    changed.notify_all();
  });
  REQUIRE(runner->start(spec_of("a/s/1/drift")).has_value());
  REQUIRE(runner->start(spec_of("b/s/1/drift")).has_value());
  disk.wait_for("start b/s/1/drift");
  runner->cancel("a/s/1/drift");
  {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return !told.empty(); }));
  }
  CHECK(told.front().result.error->message == "the job was cancelled before it started");
  full = false;
  std::unique_lock lock(disk.mutex);
  CHECK(disk.changed.wait_for(lock, std::chrono::seconds(120),
                              [&] { return std::ranges::count(disk.asked, "start b/s/1/drift") > 1; }));
  lock.unlock();
  runner->on_done({});
}
