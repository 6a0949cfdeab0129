#include "daemon/route/relay/first_byte_wait.hpp"

#include <utility>

namespace driftgate::route {

FirstByteWait::FirstByteWait(std::shared_ptr<Engine> engine, bool streamed, std::shared_ptr<Engine> instead,
                             bool trial, bool timed)
    : engine_(std::move(engine)),
      instead_(std::move(instead)),
      streamed_(streamed),
      trial_(trial),
      timed_(timed),
      sent_(Time::clock::now()),
      until_(Time::max()),
      in_flight_(engine_->request_begins()) {
  const auto limit = timed_ ? engine_->first_byte_ms(streamed_) : 0u;
  if (limit > 0) {
    until_ = sent_ + std::chrono::milliseconds(limit);
  } else if (trial_) {
    until_ = sent_ + kTrialLimit;
  }
}

FirstByteWait::~FirstByteWait() {
  engine_->request_ends();
  if (trial_ && !over_) engine_->gave_up();
}

bool FirstByteWait::can_move() const {
  return instead_ != nullptr && instead_->state() == BreakerState::closed;
}

bool FirstByteWait::late(Time now) {
  late_ = true;
  until_ = Time::max();
  const bool moves = can_move();
  over_ = over_ || moves;
  engine_->missed(streamed_, moves, now);
  return moves;
}

bool FirstByteWait::overtaken() const {
  return !over_ && engine_->state() == BreakerState::open && can_move();
}

void FirstByteWait::came(int status, Time now) {
  if (std::exchange(over_, true)) return;
  until_ = Time::max();
  if (timed_ && status >= 200 && status < 300) {
    engine_->answered(streamed_, now - sent_, now);
  } else {
    engine_->refused(now);
  }
}

/// An answer that makes no sense, or breaks off, is still one: the engine does not hang.
void FirstByteWait::failed(std::string_view why, Time now) {
  if (std::exchange(over_, true)) return;
  if (why == "bad_head" || why == "truncated_answer") return engine_->refused(now);
  if (!late_) engine_->failed(why, now);
}

}  // namespace driftgate::route
