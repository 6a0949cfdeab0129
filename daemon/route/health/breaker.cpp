#include "daemon/route/health/breaker.hpp"

#include <algorithm>
#include <array>

namespace driftgate::route {

std::string_view to_string(BreakerState state) {
  constexpr std::array<std::string_view, 3> kNames{"closed", "open", "half_open"};
  return kNames[static_cast<std::size_t>(state)];
}

void Breaker::succeeded() {
  requests_ = probes_ = 0;
  trying_ = false;
  state_ = BreakerState::closed;
}

void Breaker::failed(Time now) {
  if (state_ == BreakerState::closed) return count(requests_, now);
  if (state_ == BreakerState::open) return;
  ++requests_;
  wait_longer(now);
}

void Breaker::probed(bool answered, Time now) {
  if (answered) {
    probes_ = 0;
    if (state_ == BreakerState::open && now >= until_) state_ = BreakerState::half_open;
    return;
  }
  if (state_ == BreakerState::closed) return count(probes_, now);
  ++probes_;
  if (state_ == BreakerState::half_open) state_ = BreakerState::open;
  trying_ = false;
}

bool Breaker::admits(Time now) {
  if (state_ == BreakerState::closed) return true;
  if (state_ == BreakerState::open && !limits_.probed && now >= until_) state_ = BreakerState::half_open;
  if (state_ == BreakerState::open || trying_) return false;
  trying_ = true;
  return true;
}

void Breaker::gave_up() {
  trying_ = false;
}

void Breaker::count(std::uint32_t& failures, Time now) {
  ++failures;
  if (limits_.failures > 0 && requests_ + probes_ >= limits_.failures) open(now);
}

void Breaker::open(Time now) {
  wait_ = limits_.first_wait;
  state_ = BreakerState::open;
  opened_ = now;
  until_ = now + wait_;
  trying_ = false;
}

void Breaker::wait_longer(Time now) {
  wait_ = std::min(2 * wait_, limits_.longest_wait);
  state_ = BreakerState::open;
  until_ = now + wait_;
  trying_ = false;
}

}  // namespace driftgate::route
