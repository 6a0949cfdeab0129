#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "daemon/route/spawn.hpp"

namespace driftgate::app {

/// Starts the router again when it has died under a living daemon, with back-off from one second to one
/// minute. The pipeline finds that its routes are not held and applies them again. A router that answers
/// slowly or was adopted is left alone: only one that nobody listens for is replaced.
class RouterKeeper {
 public:
  using Log = std::function<void(std::string_view level, const std::string& text)>;

  RouterKeeper(route::SpawnOptions options, Log log,
               std::chrono::milliseconds look_every = std::chrono::milliseconds(1'000));
  ~RouterKeeper();
  RouterKeeper(const RouterKeeper&) = delete;
  RouterKeeper& operator=(const RouterKeeper&) = delete;

 private:
  void run();
  /// How long to wait before the next look.
  std::chrono::milliseconds look();

  const route::SpawnOptions options_;
  const Log log_;
  const std::chrono::milliseconds look_every_;
  route::RouterDriver driver_;
  int failures_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace driftgate::app
