#include "daemon/jobs/detached_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace driftgate::jobs {
namespace {

using Clock = std::chrono::steady_clock;
using schema::ErrorCode;

constexpr std::size_t kMostJobs = 4'096;  ///< that have not ended
/// Between two looks at where the jobs are.
constexpr std::chrono::milliseconds kLookEach{500};
/// The same while a job has not begun: who started one looks soon.
constexpr std::chrono::milliseconds kLookSoon{50};

class DetachedRunner final : public JobRunner {
 public:
  explicit DetachedRunner(std::unique_ptr<JobRunner> inner)
      : inner_(std::move(inner)), thread_([this] { loop(); }) {}

  ~DetachedRunner() override {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
    inner_.reset();  // its threads call `deliver`
  }

  void on_done(std::function<void(JobDone)> callback) override {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return telling_ == 0; });  // whoever is replaced is not called any more
    callback_ = std::move(callback);
    wake_.notify_all();
  }

  schema::Result<void> start(const JobSpec& spec) override {
    const std::lock_guard guard(mutex_);
    const auto known = jobs_.find(spec.key);
    if (known != jobs_.end() && !known->second.ended) return {};
    if (open_ >= kMostJobs)
      return schema::fail(ErrorCode::unavailable, fmt::format("{} jobs wait already; try later", open_));
    jobs_[spec.key] = Seen{};
    ++open_;
    order(false, [this, spec] { begin(spec); });
    return {};
  }

  void cancel(const std::string& key) override {
    const std::lock_guard guard(mutex_);
    order(true, [this, key] {
      if (std::erase_if(refused_, [&](const JobSpec& spec) { return spec.key == key; }) > 0)
        return deliver({key, failed(ErrorCode::conflict, "the job was cancelled before it started")});
      inner_->cancel(key);
    });
  }

  [[nodiscard]] std::optional<JobProgress> progress(const std::string& key) override {
    const std::lock_guard guard(mutex_);
    const auto known = jobs_.find(key);
    return known == jobs_.end() ? std::nullopt : known->second.progress;
  }

  [[nodiscard]] std::optional<JobPlace> place(const std::string& key) override {
    const std::lock_guard guard(mutex_);
    const auto known = jobs_.find(key);
    return known == jobs_.end() ? std::nullopt : known->second.place;
  }

  void forget(const std::string& prefix) override {
    const std::lock_guard guard(mutex_);
    std::erase_if(jobs_, [&](const auto& item) {
      const bool goes = item.first.starts_with(prefix);
      if (goes && !item.second.ended) --open_;
      return goes;
    });
    order(true, [this, prefix] {
      std::erase_if(refused_, [&](const JobSpec& spec) { return spec.key.starts_with(prefix); });
      inner_->forget(prefix);
    });
  }

  void drop_left(FateOf fate_of) override {
    const std::lock_guard guard(mutex_);
    order(false, [this, fate_of = std::move(fate_of)] { inner_->drop_left(fate_of); });
  }

  [[nodiscard]] std::size_t running() const override {
    const std::lock_guard guard(mutex_);
    return open_;
  }

  [[nodiscard]] std::string folder(const std::string& key) const override { return inner_->folder(key); }

 private:
  /// What was seen of a job last. One that has ended stays until it is forgotten.
  struct Seen {
    std::optional<JobPlace> place{};
    std::optional<JobProgress> progress{};
    bool ended = false;
  };
  struct Order {
    bool at_stop_too = false;  ///< else it is dropped then
    std::function<void()> carry_out;
  };

  void order(bool at_stop_too, std::function<void()> carry_out) {
    orders_.push_back({at_stop_too, std::move(carry_out)});
    wake_.notify_all();
  }

  // From here on to `deliver`: on the thread, without the lock.
  void begin(const JobSpec& spec) {
    const auto started = inner_->start(spec);
    if (started) return;
    if (started.error().code != ErrorCode::unavailable) return deliver({spec.key, failed(started.error())});
    refused_.push_back(spec);
    const std::lock_guard guard(mutex_);
    const auto known = jobs_.find(spec.key);
    if (known != jobs_.end()) known->second.place = {"local", "", "waiting", started.error().message, ""};
  }

  void begin_refused() {
    for (const auto& spec : std::exchange(refused_, {})) begin(spec);
  }

  void look() {
    std::vector<std::string> open;
    {
      const std::lock_guard guard(mutex_);
      for (const auto& [key, seen] : jobs_)
        if (!seen.ended) open.push_back(key);
    }
    for (const auto& key : open) {
      auto place = inner_->place(key);
      auto progress = inner_->progress(key);
      const std::lock_guard guard(mutex_);
      if (stopping_) return;
      const auto known = jobs_.find(key);
      if (known == jobs_.end() || known->second.ended) continue;
      if (place) known->second.place = std::move(place);
      if (progress) known->second.progress = std::move(progress);
    }
  }

  [[nodiscard]] bool any_waits() const {
    const std::lock_guard guard(mutex_);
    return std::ranges::any_of(jobs_, [](const auto& item) {
      const auto& seen = item.second;
      return !seen.ended &&
             (!seen.place || (seen.place->runner == "local" && seen.place->state == "waiting"));
    });
  }

  /// On any thread of the inner runner, or on this one's.
  void deliver(JobDone done) {
    std::unique_lock lock(mutex_);
    const auto known = jobs_.find(done.key);
    if (known != jobs_.end() && !known->second.ended) {
      if (done.place) known->second.place = done.place;
      if (known->second.place) known->second.place->state = "ended";
      known->second.progress.reset();
      known->second.ended = true;
      --open_;
    }
    done_.push_back(std::move(done));
    tell(lock);
  }

  /// Results wait until there is somebody to tell.
  void tell(std::unique_lock<std::mutex>& lock) {
    while (!done_.empty() && callback_ && !stopping_) {
      auto done = std::move(done_.front());
      done_.pop_front();
      const auto callback = callback_;
      ++telling_;
      lock.unlock();
      callback(std::move(done));
      lock.lock();
      --telling_;
      told_.notify_all();
    }
  }

  void loop() {
    inner_->on_done([this](JobDone done) { deliver(std::move(done)); });
    Clock::time_point next_look{};
    std::unique_lock lock(mutex_);
    while (true) {
      const auto ordered = [&] { return stopping_ || !orders_.empty() || (!done_.empty() && callback_); };
      if (open_ > 0) {
        wake_.wait_until(lock, next_look, ordered);
      } else {
        wake_.wait(lock, ordered);
      }
      const bool stop = stopping_;
      auto orders = std::exchange(orders_, {});
      lock.unlock();
      for (const auto& one : orders)
        if (!stop || one.at_stop_too) one.carry_out();
      if (stop) return;
      if (Clock::now() >= next_look) {
        begin_refused();
        look();
        next_look = Clock::now() + (any_waits() ? kLookSoon : kLookEach);
      }
      lock.lock();
      tell(lock);
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable wake_, told_;
  std::function<void(JobDone)> callback_;
  std::deque<Order> orders_;
  std::map<std::string, Seen> jobs_;
  std::size_t open_ = 0;  ///< of jobs_, that have not ended
  std::deque<JobDone> done_;
  int telling_ = 0;  ///< callbacks that run now
  bool stopping_ = false;
  std::vector<JobSpec> refused_;  ///< of the thread: the inner runner has no room for them yet
  std::unique_ptr<JobRunner> inner_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<JobRunner> detached(std::unique_ptr<JobRunner> inner) {
  return std::make_unique<DetachedRunner>(std::move(inner));
}

}  // namespace driftgate::jobs
