#include "daemon/jobs/slurm/slurm_runner.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "daemon/base/durable_file.hpp"
#include "daemon/jobs/slurm/slurm_round.hpp"

namespace driftgate::jobs {
namespace {

using Clock = std::chrono::steady_clock;
using schema::ErrorCode;

/// Between two looks at Slurm when new jobs come one after another.
constexpr std::chrono::milliseconds kShortestPause{100};

/// What people ask of the thread.
struct Orders {
  std::vector<JobSpec> starts;
  std::vector<std::string> cancels, forgets;
  FateOf left{};
  [[nodiscard]] bool empty() const {
    return starts.empty() && cancels.empty() && forgets.empty() && !left;
  }
};

class SlurmRunner final : public JobRunner {
 public:
  explicit SlurmRunner(SlurmRunnerOptions options)
      : options_(std::move(options)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        jobs_(options_, stop_.get()),
        thread_([this] { loop(); }) {}

  ~SlurmRunner() override {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    const std::uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof one);  // ends a program of Slurm that runs
    wake_.notify_all();
    thread_.join();
  }

  void on_done(std::function<void(JobDone)> callback) override {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return !telling_; });  // whoever is replaced is not called any more
    callback_ = std::move(callback);
    wake_.notify_all();
  }

  schema::Result<void> start(const JobSpec& spec) override {
    const std::lock_guard guard(mutex_);
    if (places_.contains(spec.key)) return {};
    if (places_.size() >= options_.waiting_limit)
      return schema::fail(ErrorCode::unavailable,
                          fmt::format("{} jobs wait for Slurm already; try later", places_.size()));
    places_[spec.key] = JobPlace{"slurm", "", "waiting", "", ""};
    orders_.starts.push_back(spec);
    wake_.notify_all();
    return {};
  }

  void cancel(const std::string& key) override {
    const std::lock_guard guard(mutex_);
    if (!places_.contains(key)) return;
    orders_.cancels.push_back(key);
    wake_.notify_all();
  }

  [[nodiscard]] std::optional<JobProgress> progress(const std::string& key) override {
    return JobFolder(folder(key)).progress();
  }

  [[nodiscard]] std::optional<JobPlace> place(const std::string& key) override {
    {
      const std::lock_guard guard(mutex_);
      const auto found = places_.find(key);
      if (found != places_.end()) return found->second;
    }
    const JobFolder job(folder(key));
    const auto record = read_submissions(job);
    if (!record || record->submissions.empty()) return std::nullopt;
    auto place = place_of(*record);
    if (job.get("result.json")) place.state = "ended";
    return place;
  }

  void forget(const std::string& prefix) override {
    if (!has_any(prefix)) return;
    const std::lock_guard guard(mutex_);
    std::erase_if(places_, [&](const auto& item) { return item.first.starts_with(prefix); });
    std::erase_if(orders_.starts, [&](const JobSpec& spec) { return spec.key.starts_with(prefix); });
    orders_.forgets.push_back(prefix);
    wake_.notify_all();
  }

  void drop_left(FateOf fate_of) override {
    const std::lock_guard guard(mutex_);
    orders_.left = std::move(fate_of);
    wake_.notify_all();
  }

  [[nodiscard]] std::size_t running() const override {
    const std::lock_guard guard(mutex_);
    return places_.size();
  }

  [[nodiscard]] std::string folder(const std::string& key) const override {
    return (options_.jobs_dir / job_folder_name(key)).string();
  }

 private:
  /// Whether a job with this prefix is, or was, this runner's.
  [[nodiscard]] bool has_any(const std::string& prefix) const {
    {
      const std::lock_guard guard(mutex_);
      const auto first = places_.lower_bound(prefix);
      if (first != places_.end() && first->first.starts_with(prefix)) return true;
    }
    const auto start = job_folder_name(prefix);
    std::error_code ignored;
    for (const auto& item : std::filesystem::directory_iterator(options_.jobs_dir, ignored)) {
      if (item.path().filename().string().starts_with(start) &&
          std::filesystem::exists(item.path() / kBatchFile, ignored))
        return true;
    }
    return false;
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      auto orders = std::exchange(orders_, {});
      lock.unlock();
      take(orders);
      if (orders.left) jobs_.drop_left(orders.left);
      auto done = jobs_.has_work() ? jobs_.look() : std::vector<JobDone>{};
      const auto looked = Clock::now();
      auto places = jobs_.places();
      lock.lock();
      publish(std::move(places), std::move(done));
      tell(lock);
      if (stopping_) break;
      pause(lock, looked);
    }
    // What was ordered during the last look is noted in the folders: the next daemon tells Slurm.
    take(std::exchange(orders_, {}));
  }

  void take(const Orders& orders) {
    for (const auto& prefix : orders.forgets) jobs_.forget(prefix);
    for (const auto& spec : orders.starts) jobs_.add(spec);
    for (const auto& key : orders.cancels) jobs_.cancel(key);
  }

  void pause(std::unique_lock<std::mutex>& lock, Clock::time_point looked) {
    const auto ordered = [&] { return stopping_ || !orders_.empty() || (!done_.empty() && callback_); };
    if (jobs_.has_work()) {
      wake_.wait_until(lock, looked + options_.poll, ordered);
    } else {
      wake_.wait(lock, ordered);
    }
    const auto soonest = looked + std::min(options_.poll, kShortestPause);
    wake_.wait_until(lock, soonest, [&] { return stopping_; });
  }

  /// Jobs that were forgotten since the look began stay forgotten.
  void publish(std::vector<std::pair<std::string, JobPlace>> places, std::vector<JobDone> done) {
    for (auto& [key, place] : places) {
      const auto found = places_.find(key);
      if (found != places_.end()) found->second = std::move(place);
    }
    for (auto& one : done) {
      const auto found = places_.find(one.key);
      if (found == places_.end()) continue;
      if (one.place) found->second = *one.place;
      done_.push_back(std::move(one));
    }
  }

  /// Tells what has ended, without the lock; results wait until there is somebody to tell.
  void tell(std::unique_lock<std::mutex>& lock) {
    while (!done_.empty() && callback_ && !stopping_) {
      auto done = std::move(done_.front());
      done_.pop_front();
      places_.erase(done.key);
      const auto callback = callback_;
      telling_ = true;
      lock.unlock();
      callback(std::move(done));
      lock.lock();
      telling_ = false;
      told_.notify_all();
    }
  }

  const SlurmRunnerOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, told_;
  std::function<void(JobDone)> callback_;
  Orders orders_;
  std::map<std::string, JobPlace> places_;  ///< of all jobs that were started and not told yet
  std::deque<JobDone> done_;
  bool stopping_ = false;
  bool telling_ = false;  ///< a callback runs now
  base::UniqueFd stop_;
  SlurmJobs jobs_;  ///< of the thread alone
  std::thread thread_;
};

/// Whether the folder was one of jobs already; from now on it is. `io` where flock does not work in it.
schema::Result<bool> mark_folder(const std::filesystem::path& folder) {
  const auto path = (folder / kJobsMarker).string();
  const bool known = ::access(path.c_str(), F_OK) == 0;
  const base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return base::file_failure("create", path);
  if (::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno != EWOULDBLOCK)
    return schema::wrap(base::file_failure("lock", path).error(),
                        "the file system of slurm.jobs_dir must have flock");
  return known;
}

}  // namespace

schema::Result<std::unique_ptr<JobRunner>> open_slurm_runner(SlurmRunnerOptions options) {
  std::error_code error;
  std::filesystem::create_directories(options.jobs_dir, error);
  if (error)
    return schema::fail(ErrorCode::io, fmt::format("cannot make {}, the folder of jobs on Slurm: {}",
                                                   options.jobs_dir.string(), error.message()));
  std::filesystem::permissions(options.jobs_dir, std::filesystem::perms::owner_all, error);
  options.jobs_dir = std::filesystem::canonical(options.jobs_dir, error);
  if (::access(options.jobs_dir.c_str(), W_OK | X_OK) != 0)
    return schema::fail(ErrorCode::io, fmt::format("{}, the folder of jobs on Slurm, cannot be written in",
                                                   options.jobs_dir.string()));
  options.folders_are_known = TRY(mark_folder(options.jobs_dir));
  return std::make_unique<SlurmRunner>(std::move(options));
}

}  // namespace driftgate::jobs
