#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace driftgate::route {

enum class BreakerState : std::uint8_t {
  closed,     ///< requests go to the engine
  open,       ///< the engine does not answer: requests that another engine can take go there at once
  half_open,  ///< one request at a time tries the engine
};
[[nodiscard]] std::string_view to_string(BreakerState state);

struct BreakerLimits {
  std::uint32_t failures = 3;                 ///< in a row that open it; 0: it never opens
  std::chrono::milliseconds first_wait{500};  ///< from an opening to the first trial
  std::chrono::milliseconds longest_wait{
      10'000};         ///< the wait doubles with each trial that fails, up to this
  bool probed = true;  ///< a probe must be answered before a request tries
};

/// The breaker of one engine. It opens after failures in a row: of requests, for which only the first byte of
/// an answer is a sign of life, and of active probes. An answered probe alone does not close it, since a
/// server may answer probes while its model hangs: it lets one request try, whose first byte closes it.
/// Time is passed in. Not thread-safe.
class Breaker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Breaker(BreakerLimits limits = {}) : limits_(limits) {}

  /// The first byte of an answer came.
  void succeeded();
  /// A request could not connect, got no answer, or its first byte was late.
  void failed(Time now);
  /// An active probe was answered, or not.
  void probed(bool answered, Time now);
  /// Whether a request may go to the engine now. Where it was closed that changes nothing; half open, the
  /// caller has the trial, and ends it by succeeded, failed or gave_up.
  [[nodiscard]] bool admits(Time now);
  /// The trial ended and showed nothing, such as by its client's leave.
  void gave_up();

  [[nodiscard]] BreakerState state() const { return state_; }
  /// Failures in a row, of requests and of probes.
  [[nodiscard]] std::uint32_t failures() const { return requests_ + probes_; }
  /// When it opened last, whatever trials failed since.
  [[nodiscard]] Time opened() const { return opened_; }

 private:
  void count(std::uint32_t& failures, Time now);
  void open(Time now);
  void wait_longer(Time now);

  BreakerLimits limits_;
  BreakerState state_ = BreakerState::closed;
  std::uint32_t requests_ = 0;  ///< failures of requests in a row
  std::uint32_t probes_ = 0;    ///< failures of probes in a row
  bool trying_ = false;
  std::chrono::milliseconds wait_{0};
  Time until_{};  ///< no trial before
  Time opened_{};
};

}  // namespace driftgate::route
