#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/pipeline/clock.hpp"

namespace driftgate::night {

/// Time that stands still but for what its driver says.
class NightClock final : public pipeline::Clock {
 public:
  explicit NightClock(std::int64_t now_us) : now_us_(now_us) {}
  [[nodiscard]] std::int64_t now_us() override { return now_us_; }
  [[nodiscard]] std::int64_t wall_offset_us() override { return 0; }
  void set(std::int64_t now_us) { now_us_ = now_us; }

 private:
  std::atomic<std::int64_t> now_us_;
};

}  // namespace driftgate::night
