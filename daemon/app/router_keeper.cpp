#include "daemon/app/router_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace driftgate::app {
namespace {

constexpr std::chrono::milliseconds kFirstWait{1'000};
constexpr std::chrono::milliseconds kLongestWait{60'000};

}  // namespace

RouterKeeper::RouterKeeper(route::SpawnOptions options, Log log, std::chrono::milliseconds look_every)
    : options_(std::move(options)),
      log_(std::move(log)),
      look_every_(look_every),
      driver_(options_.router.control_path),
      thread_([this] { run(); }) {}

RouterKeeper::~RouterKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void RouterKeeper::run() {
  auto wait = look_every_;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, wait, [this] { return stopping_; })) {
    lock.unlock();
    wait = look();
    lock.lock();
  }
}

std::chrono::milliseconds RouterKeeper::look() {
  const auto info = driver_.info();
  if (info || info.error().code != schema::ErrorCode::unavailable) {
    failures_ = 0;
    return look_every_;
  }
  log_("warning", fmt::format("the router is gone and is started again: {}", info.error().describe()));
  const auto router = route::spawn_router(options_);
  if (router) {
    failures_ = 0;
    log_("info", fmt::format("router started again port={} pid={}", router->info.port, router->info.pid));
    return look_every_;
  }
  const auto wait = std::min(kFirstWait * (1 << std::min(failures_, 6)), kLongestWait);
  ++failures_;
  log_("warning", fmt::format("the router could not be started: {}; trying again in {} s",
                              router.error().describe(), wait.count() / 1'000));
  return wait;
}

}  // namespace driftgate::app
