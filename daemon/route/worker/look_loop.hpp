#pragma once

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "schema/error.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {

/// The thread that brings a steered plane to the routes of the table: it looks at the plane every so often,
/// and at once when it is asked to. `Seen` is what a look finds; its `refused` maps models to why their
/// routes are not in force. Safe from any thread.
template <typename Seen>
class LookLoop {
 public:
  using Clock = std::chrono::steady_clock;
  /// How long settle waits: less than what is taken for a router that hangs.
  static constexpr std::chrono::milliseconds kPatience{500};

  struct State {
    std::uint64_t done = 0;  ///< the look that saw everything up to this one
    Seen seen;               ///< by the newest look that succeeded
    std::optional<schema::Error> fault;
    Clock::time_point succeeded{};
  };
  using Look = std::function<schema::Result<Seen>()>;
  using Pause = std::function<std::chrono::milliseconds(const State&)>;

  /// `plane` as messages name it, such as "HAProxy".
  explicit LookLoop(std::string_view plane) : plane_(plane) {}
  ~LookLoop() { stop(); }
  LookLoop(const LookLoop&) = delete;
  LookLoop& operator=(const LookLoop&) = delete;

  /// Begins. `look` is called on the thread of the loop, `pause` under its lock.
  void start(Look look, Pause pause) {
    thread_ = std::thread([this, look = std::move(look), pause = std::move(pause)] { run(look, pause); });
  }

  void wake() {
    {
      const std::lock_guard lock(mutex_);
      ++wanted_;
    }
    wake_.notify_all();
  }

  /// Asks for a look and waits until it is made and `is_over` says that nothing more is to come; then what it
  /// found of the model's route. `deadline_exceeded` when that takes too long.
  schema::Result<void> settle(const std::string& model, const std::function<bool(const State&)>& is_over) {
    std::unique_lock lock(mutex_);
    const auto turn = ++wanted_;
    wake_.notify_all();
    settled_.wait_for(lock, kPatience, [&] { return stop_ || (state_.done >= turn && is_over(state_)); });
    if (state_.done < turn)
      return schema::failf(schema::ErrorCode::deadline_exceeded,
                           "{} has not taken the route of model '{}' within {} ms; it is being tried again",
                           plane_, model, kPatience.count());
    if (state_.fault) return std::unexpected(*state_.fault);
    const auto refused = state_.seen.refused.find(model);
    if (refused != state_.seen.refused.end()) return std::unexpected(refused->second);
    return {};
  }

  /// What `read` returns of the state, which does not change meanwhile.
  template <typename Read>
  auto read(Read read) const {
    const std::lock_guard lock(mutex_);
    return read(state_);
  }

 private:
  void run(const Look& look, const Pause& pause) {
    for (;;) {
      std::uint64_t turn = 0;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, pause(state_), [&] { return stop_ || wanted_ != state_.done; });
        if (stop_) return;
        turn = wanted_;
      }
      note(turn, look());
    }
  }

  void note(std::uint64_t turn, schema::Result<Seen> seen) {
    {
      const std::lock_guard lock(mutex_);
      state_.done = turn;
      const auto before = state_.fault ? state_.fault->describe() : std::string();
      if (seen) {
        state_.fault.reset();
        state_.seen = std::move(*seen);
        state_.succeeded = Clock::now();
      } else {
        state_.fault = std::move(seen.error());
      }
      const auto after = state_.fault ? state_.fault->describe() : std::string();
      if (before != after) {
        if (state_.fault) spdlog::warn("router: {} is not steered: {}", plane_, after);
        if (!state_.fault) spdlog::info("router: {} is steered", plane_);
      }
    }
    settled_.notify_all();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    settled_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  const std::string plane_;
  mutable std::mutex mutex_;  ///< guards what follows, but for the thread
  std::condition_variable wake_;
  std::condition_variable settled_;
  std::uint64_t wanted_ = 1;  ///< looks asked for
  bool stop_ = false;
  State state_;
  std::thread thread_;
};

}  // namespace driftgate::route
