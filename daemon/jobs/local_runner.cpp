#include "daemon/jobs/local_runner.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "daemon/jobs/kept_chunks.hpp"
#include "daemon/jobs/slurm/submissions.hpp"
#include "daemon/jobs/spawn_worker.hpp"

namespace driftgate::jobs {
namespace {

using Clock = std::chrono::steady_clock;
using schema::ErrorCode;

/// A worker enforces its own wall limit on adapters; the runner kills it when it has not ended this much
/// later.
constexpr std::chrono::milliseconds kWallGrace{5'000};

struct Running {
  WorkerProcess process;
  std::optional<Clock::time_point> deadline;
  bool cancelled = false;
  bool too_late = false;
};

class LocalRunner final : public JobRunner {
 public:
  explicit LocalRunner(LocalRunnerOptions options)
      : options_(std::move(options)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { loop(); }) {}

  ~LocalRunner() override {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
  }

  void on_done(std::function<void(JobDone)> callback) override {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return !telling_; });  // whoever is replaced is not called any more
    callback_ = std::move(callback);
  }

  schema::Result<void> start(const JobSpec& spec) override {
    const std::lock_guard guard(mutex_);
    const auto waits =
        std::ranges::any_of(waiting_, [&](const JobSpec& other) { return other.key == spec.key; });
    if (waits || running_.contains(spec.key)) return {};
    const JobFolder job(path(spec.key));
    if (auto stored = job.get("result.json")) {
      done_.push_back({spec.key, read_result(job), ended_at(job)});
    } else if (!job.lock_is_free()) {
      adopt(spec, job);
    } else if (job.number_in("pid") != 0) {
      done_.push_back({spec.key, read_result(job), ended_at(job)});
    } else if (waiting_.size() >= options_.queue_limit) {
      return schema::fail(ErrorCode::unavailable,
                          fmt::format("{} jobs wait already; try later", waiting_.size()));
    } else {
      waiting_.push_back(spec);
    }
    wake();
    return {};
  }

  void cancel(const std::string& key) override {
    const std::lock_guard guard(mutex_);
    cancel_locked(key);
    wake();
  }

  [[nodiscard]] std::optional<JobProgress> progress(const std::string& key) override {
    return JobFolder(path(key)).progress();
  }

  [[nodiscard]] std::optional<JobPlace> place(const std::string& key) override {
    const std::lock_guard guard(mutex_);
    const auto found = running_.find(key);
    if (found != running_.end())
      return JobPlace{"local", std::to_string(found->second.process.pid), "running", "", ""};
    if (std::ranges::find(waiting_, key, &JobSpec::key) != waiting_.end())
      return JobPlace{"local", "", "waiting", fmt::format("all {} slots are taken", options_.slots), ""};
    const JobFolder job(path(key));
    if (!job.get("result.json")) return std::nullopt;
    return ended_at(job);
  }

  void forget(const std::string& prefix) override {
    const std::lock_guard guard(mutex_);
    const auto start = job_folder_name(prefix);
    std::vector<std::string> keys;
    for (const auto& [key, job] : running_) {
      if (key.starts_with(prefix)) keys.push_back(key);
    }
    for (const auto& key : keys) cancel_locked(key);
    std::erase_if(waiting_, [&](const JobSpec& spec) { return spec.key.starts_with(prefix); });
    std::error_code ignored;
    for (const auto& item : std::filesystem::directory_iterator(options_.jobs_dir, ignored)) {
      if (item.path().filename().string().starts_with(start))
        std::filesystem::remove_all(item.path(), ignored);
    }
  }

  void drop_left(FateOf fate_of) override {
    std::error_code ignored;
    for (const auto& item : std::filesystem::directory_iterator(options_.jobs_dir, ignored)) {
      const JobFolder job(item.path());
      if (std::filesystem::exists(job.file(kBatchFile), ignored)) continue;  // of Slurm
      const auto key = key_in(job);
      const auto fate = key.empty() ? JobFate::keep : fate_of(key);
      if (fate == JobFate::keep) continue;
      const std::lock_guard guard(mutex_);
      if (running_.contains(key) || std::ranges::find(waiting_, key, &JobSpec::key) != waiting_.end())
        continue;
      if (const auto worker = adopt_worker(job); worker.pid != 0) kill_worker(job, worker.pid);
      if (fate == JobFate::forget) std::filesystem::remove_all(job.path(), ignored);
    }
  }

  [[nodiscard]] std::size_t running() const override {
    const std::lock_guard guard(mutex_);
    return running_.size() + waiting_.size();
  }

  [[nodiscard]] std::string folder(const std::string& key) const override { return path(key).string(); }

 private:
  [[nodiscard]] std::filesystem::path path(const std::string& key) const {
    return options_.jobs_dir / job_folder_name(key);
  }

  static JobPlace ended_at(const JobFolder& job) {
    const int pid = job.number_in("pid");
    return JobPlace{"local", pid == 0 ? "" : std::to_string(pid), "ended", "", ""};
  }

  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  void cancel_locked(const std::string& key) {
    const auto waiting = std::ranges::find(waiting_, key, &JobSpec::key);
    if (waiting != waiting_.end()) {
      waiting_.erase(waiting);
      done_.push_back({key, failed(ErrorCode::conflict, "the job was cancelled before it started")});
    }
    const auto found = running_.find(key);
    if (found == running_.end()) return;
    found->second.cancelled = true;
    kill_worker(JobFolder(path(key)), found->second.process.pid);
  }

  void adopt(const JobSpec& spec, const JobFolder& job) {
    auto process = adopt_worker(job);
    if (process.pid == 0) {
      // It ended between the two looks, or its number is not written yet: decide by what it leaves.
      done_.push_back({spec.key, read_result(job), ended_at(job)});
      return;
    }
    running_.emplace(spec.key, Running{std::move(process), deadline_of(spec)});
  }

  static std::optional<Clock::time_point> deadline_of(const JobSpec& spec) {
    if (spec.limits.wall_ms <= 0) return std::nullopt;
    return Clock::now() + std::chrono::milliseconds(spec.limits.wall_ms) + kWallGrace;
  }

  JobResult read_result(const JobFolder& job) const {
    const auto text = job.get("result.json");
    if (!text && text.error().code == ErrorCode::not_found)
      return failed(ErrorCode::internal,
                    fmt::format("the worker ended without a result; its log is {}", job.file("log")));
    auto result = text ? job_result_from_json(*text) : std::unexpected(text.error());
    return result ? std::move(*result) : failed(result.error());
  }

  /// Starts what waits while there are free slots.
  void fill_slots() {
    while (!waiting_.empty() && running_.size() < options_.slots) {
      const auto spec = std::move(waiting_.front());
      waiting_.pop_front();
      const JobFolder job(path(spec.key));
      std::error_code error;
      std::filesystem::create_directories(job.path(), error);
      std::filesystem::permissions(job.path(), std::filesystem::perms::owner_all, error);
      take_over_chunks(job, spec.key);
      auto written = job.put("spec.json", to_json(spec));
      auto process = written ? spawn_worker(job, options_.worker) : std::unexpected(written.error());
      if (!process) {
        done_.push_back({spec.key, failed(process.error())});
        continue;
      }
      running_.emplace(spec.key, Running{std::move(*process), deadline_of(spec)});
    }
  }

  void finish(const std::string& key, Running& job) {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(job.process.pid), &info, WEXITED | WNOHANG);  // fails for adopted ones
    const JobFolder folder(path(key));
    auto result = read_result(folder);
    if (!result.ok) kill_worker(folder, 0);
    if (!result.ok && info.si_code == CLD_KILLED && info.si_status == SIGXCPU)
      result = failed(ErrorCode::limit_exceeded,
                      "the job used more CPU time than its limit allows; raise jobs.cpu_limit_s");
    if (!result.ok && job.cancelled) result = failed(ErrorCode::conflict, "the job was cancelled");
    if (!result.ok && job.too_late)
      result = failed(ErrorCode::deadline_exceeded, "the job ran past its wall-clock limit");
    done_.push_back({key, std::move(result), ended_at(folder)});
  }

  void kill_late() {
    for (auto& [key, job] : running_) {
      if (job.too_late || !job.deadline || Clock::now() < *job.deadline) continue;
      job.too_late = true;
      kill_worker(JobFolder(path(key)), job.process.pid);
    }
  }

  [[nodiscard]] int poll_timeout() const {
    std::optional<Clock::time_point> first;
    for (const auto& [key, job] : running_) {
      if (!job.too_late && job.deadline && (!first || *job.deadline < *first)) first = job.deadline;
    }
    if (!first) return -1;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*first - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 3'600'000));
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      fill_slots();
      tell(lock);
      if (stopping_) break;
      std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
      std::vector<std::string> keys;
      for (const auto& [key, job] : running_) {
        waits.push_back({job.process.pidfd.get(), POLLIN, 0});
        keys.push_back(key);
      }
      const int timeout = done_.empty() ? poll_timeout() : 0;
      lock.unlock();
      ::poll(waits.data(), waits.size(), timeout);
      std::uint64_t ignored = 0;
      (void)!::read(wake_.get(), &ignored, sizeof ignored);
      lock.lock();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (waits[i + 1].revents == 0) continue;
        const auto found = running_.find(keys[i]);
        finish(keys[i], found->second);
        running_.erase(found);
      }
      kill_late();
    }
  }

  /// Tells what has ended, without the lock; results wait until there is somebody to tell.
  void tell(std::unique_lock<std::mutex>& lock) {
    while (!done_.empty() && callback_ && !stopping_) {
      auto done = std::move(done_.front());
      done_.pop_front();
      const auto callback = callback_;
      telling_ = true;
      lock.unlock();
      callback(std::move(done));
      lock.lock();
      telling_ = false;
      told_.notify_all();
    }
  }

  LocalRunnerOptions options_;
  mutable std::mutex mutex_;
  std::function<void(JobDone)> callback_;
  std::deque<JobSpec> waiting_;
  std::map<std::string, Running> running_;
  std::deque<JobDone> done_;
  bool stopping_ = false;
  bool telling_ = false;  ///< a callback runs now
  std::condition_variable told_;
  base::UniqueFd wake_;
  std::thread thread_;
};

}  // namespace

schema::Result<std::unique_ptr<JobRunner>> open_local_runner(LocalRunnerOptions options) {
  std::error_code error;
  std::filesystem::create_directories(options.jobs_dir, error);
  if (error) {
    return schema::fail(ErrorCode::io,
                        fmt::format("cannot make {}: {}", options.jobs_dir.string(), error.message()));
  }
  std::filesystem::permissions(options.jobs_dir, std::filesystem::perms::owner_all, error);
  options.jobs_dir = std::filesystem::canonical(options.jobs_dir, error);
  return std::make_unique<LocalRunner>(std::move(options));
}

}  // namespace driftgate::jobs
