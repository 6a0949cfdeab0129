#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace driftgate::app {

/// Looks at something that may hang, such as a folder on a mount, at an interval and on a thread of its own,
/// and keeps what was seen last. Nobody waits for a look: one that hangs at the end is left behind, so that
/// the function must own all that it uses.
template <typename T>
class BackgroundLook {
 public:
  struct Seen {
    std::optional<T> value{};  ///< nothing before the first look has ended
    std::int64_t age_ms = 0;   ///< since a look ended, or since the first one began
  };

  BackgroundLook(std::chrono::milliseconds interval, std::function<T()> look)
      : state_(std::make_shared<State>()),
        thread_([state = state_, interval, look = std::move(look)] { state->run(interval, look); }) {}
  ~BackgroundLook() {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->changed.notify_all();
    const bool hangs = state_->looking;
    lock.unlock();
    if (hangs)
      thread_.detach();
    else
      thread_.join();
  }
  BackgroundLook(const BackgroundLook&) = delete;
  BackgroundLook& operator=(const BackgroundLook&) = delete;

  /// Any thread.
  [[nodiscard]] Seen seen() const {
    const std::lock_guard lock(state_->mutex);
    const auto age = std::chrono::steady_clock::now() - state_->seen_at;
    return {state_->value, std::chrono::duration_cast<std::chrono::milliseconds>(age).count()};
  }
  /// Something has changed: looks again as soon as the look under way has ended. Any thread.
  void look_soon() {
    const std::lock_guard lock(state_->mutex);
    state_->asked = true;
    state_->changed.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool stopping = false, asked = false;
    bool looking = true;  ///< from the start: the first look begins at once
    std::chrono::steady_clock::time_point seen_at = std::chrono::steady_clock::now();
    std::optional<T> value;

    void run(std::chrono::milliseconds interval, const std::function<T()>& look) {
      std::unique_lock lock(mutex);
      while (!stopping) {
        looking = true;
        asked = false;
        lock.unlock();
        auto found = look();
        lock.lock();
        looking = false;
        value = std::move(found);
        seen_at = std::chrono::steady_clock::now();
        changed.wait_for(lock, interval, [this] { return stopping || asked; });
      }
    }
  };

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace driftgate::app
