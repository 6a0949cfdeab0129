#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "schema/error.hpp"

namespace driftgate::pipeline {

inline constexpr std::size_t kMaxQueuedEvents = 4'096;  ///< commands waiting; one more is `unavailable`

/// One thread that runs posted functions in order and a tick when its time has come. Waits on a condition
/// variable; never polls. One that is not threaded runs everything inline and nothing by itself: for tests.
class Loop {
 public:
  /// Returns µs until it wants to be called again.
  using Tick = std::function<std::int64_t()>;

  explicit Loop(bool threaded) : threaded_(threaded) {}
  ~Loop() { stop(); }
  /// Starts the thread.
  void run(Tick tick);
  /// Lets the running function end and joins. What waits is dropped; callers of `call` get `unavailable`.
  void stop();
  /// Runs `work` on the loop later, once it runs. Never refused: for what the loop itself waits
  /// for.
  void post(std::function<void()> work);

  /// Runs `work` on the loop and waits for it. `unavailable` when the queue is full or the loop stops.
  template <typename T>
  schema::Result<T> call(std::function<schema::Result<T>()> work) {
    if (!threaded_ || on_loop()) return work();
    auto promise = std::make_shared<std::promise<schema::Result<T>>>();
    auto future = promise->get_future();
    if (!try_post([promise, work = std::move(work)] { promise->set_value(work()); })) {
      return schema::fail(schema::ErrorCode::unavailable,
                          "the pipeline is stopping or its queue is full; try again");
    }
    promise.reset();
    try {
      return future.get();
    } catch (const std::future_error&) {
      return schema::fail(schema::ErrorCode::unavailable,
                          "the daemon stopped before it could answer; check whether the change was made");
    }
  }
  /// As `call`, for what may hang: `unavailable` when it has not ended within `patience`. It then ends later,
  /// or does not begin, so `work` owns what it uses.
  template <typename T>
  schema::Result<T> call_within(std::chrono::milliseconds patience, std::function<schema::Result<T>()> work) {
    if (!threaded_ || on_loop()) return work();
    struct Waiting {
      std::promise<schema::Result<T>> promise{};
      std::atomic<bool> given_up = false;
    };
    auto waiting = std::make_shared<Waiting>();
    auto future = waiting->promise.get_future();
    const std::weak_ptr<Waiting> watched = waiting;
    if (!try_post([waiting, work = std::move(work)] {
          if (!waiting->given_up) waiting->promise.set_value(work());
        }))
      return schema::fail(schema::ErrorCode::unavailable,
                          "the daemon is stopping or too many wait; try again");
    waiting.reset();
    if (future.wait_for(patience) != std::future_status::ready) {
      if (const auto still = watched.lock()) still->given_up = true;
      return schema::fail(schema::ErrorCode::unavailable,
                          "it does not answer: its file system may be away; try again later");
    }
    try {
      return future.get();
    } catch (const std::future_error&) {
      return schema::fail(schema::ErrorCode::unavailable, "the daemon stopped before it could answer");
    }
  }
  [[nodiscard]] std::size_t queued() const;

 private:
  [[nodiscard]] bool on_loop() const { return std::this_thread::get_id() == thread_id_; }
  bool try_post(std::function<void()> work);
  void work_off(const Tick& tick);

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  const bool threaded_;
  bool stopping_ = false;
  std::thread::id thread_id_;
  std::thread thread_;
};

}  // namespace driftgate::pipeline
