#include "daemon/jobs/termination.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace driftgate::jobs {

namespace {

static_assert(std::atomic<std::int64_t>::is_always_lock_free);
std::atomic<std::int64_t> terminated_ns = 0;  ///< of the monotonic clock; 0: not yet

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // may be called in a signal handler
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void note(int) {
  std::int64_t never = 0;
  terminated_ns.compare_exchange_strong(never, now_ns());
}

}  // namespace

void record_termination() {
  struct sigaction handler {};
  handler.sa_handler = note;
  handler.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &handler, nullptr);
}

bool terminated() {
  return terminated_ns.load() != 0;
}

bool terminated_before(std::chrono::milliseconds age) {
  const std::int64_t at = terminated_ns.load();
  return at != 0 && now_ns() - at >= std::chrono::nanoseconds(age).count();
}

}  // namespace driftgate::jobs
