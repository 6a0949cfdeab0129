#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/engine_access.hpp"
#include "daemon/route/control/telemetry.hpp"
#include "daemon/route/health/breaker.hpp"
#include "daemon/route/health/first_byte_estimate.hpp"
#include "daemon/route/relay/endpoint.hpp"

namespace driftgate::route {

/// How engines are judged. Times in ms.
struct HealthLimits {
  std::uint32_t total_ms = 120'000;         ///< of a request; caps every other limit
  std::uint32_t first_byte_ms = 0;          ///< of streamed answers; 0: learned
  std::uint32_t first_byte_floor_ms = 500;  ///< added to what was learned
  BreakerLimits breaker{};
};

class EngineBook;

/// What engines ask for beside their addresses; those that ask for nothing are left out.
using AccessByUrl = std::map<std::string, base::EngineAccess>;

/// An engine as the router knows it: where it listens, how long it takes, whether it answers. Shared by all
/// threads. While the engine is well, a request costs one load before and a few atomic additions after it;
/// the lock is for an engine that is not.
class Engine {
 public:
  using Time = Breaker::Time;

  Engine(EngineBook& book, std::string url, Endpoint endpoint);

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

  enum class Entry : std::uint8_t {
    go,
    trial,     ///< go, and report by answered, failed or gave_up how it went
    withheld,  ///< the breaker is open: ask another engine
  };
  [[nodiscard]] Entry enter(Time now);
  [[nodiscard]] BreakerState state() const { return state_.load(std::memory_order_relaxed); }
  /// How long a request may wait for its first byte (of an answer that is not streamed: for all of it); 0:
  /// for the whole time of a request, since nothing shorter is known.
  [[nodiscard]] std::uint32_t first_byte_ms(bool streamed) const {
    return limit_ms_[streamed ? 1 : 0].load(std::memory_order_relaxed);
  }

  /// The first byte came so long after the request was sent.
  void answered(bool streamed, std::chrono::nanoseconds took, Time now);
  /// It answered with an error at once, which says that it lives and nothing of its speed.
  void refused(Time now);
  /// Why: connect, no_answer, timeout, as in telemetry.
  void failed(std::string_view why, Time now);
  /// The first byte was late. `counts` for the estimate, where the request is not waited for any more.
  void missed(bool streamed, bool counts, Time now);
  void probed(bool answered, std::string_view why, Time now);
  /// The request had the trial and showed nothing.
  void gave_up();
  /// It fails, or has failed and not answered since: worth a probe at once.
  [[nodiscard]] bool is_troubled() const { return troubled_.load(std::memory_order_relaxed); }

  /// Requests of users and mirrored ones that wait for it or read its answer.
  /// How many there are, with this one.
  std::uint32_t request_begins() { return in_flight_.fetch_add(1, std::memory_order_relaxed) + 1; }
  [[nodiscard]] std::uint32_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
  void request_ends() { in_flight_.fetch_sub(1, std::memory_order_relaxed); }

  [[nodiscard]] EngineStatus status(Time now) const;

 private:
  template <typename Change>
  void update(std::string_view why, Time now, Change change);
  void follow(BreakerState before, Time now);
  void learn(bool streamed);
  void succeed(Time now);

  EngineBook& book_;
  const std::string url_;
  const Endpoint endpoint_;
  std::array<FirstByteEstimate, 2> estimates_;  ///< of whole answers, of streamed ones
  std::array<std::atomic<std::uint32_t>, 2> limit_ms_{};
  std::atomic<BreakerState> state_ = BreakerState::closed;
  std::atomic<bool> troubled_ = false;
  std::atomic<std::uint32_t> in_flight_ = 0;

  mutable std::mutex mutex_;
  Breaker breaker_;
  std::string why_;                        ///< of the newest failure
  std::int64_t first_failure_us_ = 0;      ///< wall clock; of the failures in a row
  std::array<std::uint32_t, 2> missed_{};  ///< late first bytes in a row that no answer followed
};

/// The engines of all routes, each once, and what their breakers did. Engines go with the last route or
/// request that has them. Safe from any thread.
class EngineBook {
 public:
  static constexpr std::size_t kMaxEvents = kMaxBreakerEvents;

  explicit EngineBook(const HealthLimits& limits) : limits_(limits) {}

  /// The engine of a base URL; null for one that cannot be parsed. Reads its key file and CA file when it is
  /// new, or asks for others than before.
  [[nodiscard]] std::shared_ptr<Engine> get(const std::string& url);
  /// What the engine of a URL asks for, for whoever gets it from now on.
  void set_access(const std::string& url, const base::EngineAccess& access);
  /// All that was set, by URL.
  [[nodiscard]] AccessByUrl access() const;
  /// Forgets what was set for other URLs than these.
  void keep_access(const std::set<std::string>& urls);
  /// Reads key files and CA files that were replaced. One thread calls it.
  void refresh_files() const;
  [[nodiscard]] std::vector<std::shared_ptr<Engine>> engines() const;
  [[nodiscard]] const HealthLimits& limits() const { return limits_; }

  /// Increases with each breaker that opens.
  [[nodiscard]] std::uint64_t openings() const { return openings_.load(std::memory_order_relaxed); }
  /// Numbers the event and keeps it.
  void record(BreakerEvent event);
  /// Every engine, and events behind `after`.
  /// `outages_alone`: without engines whose breaker is closed.
  [[nodiscard]] HealthReport report(std::string router_id, std::uint64_t after, Engine::Time now,
                                    bool outages_alone = false) const;

 private:
  [[nodiscard]] std::shared_ptr<Engine> known(const std::string& url) const;

  const HealthLimits limits_;
  std::atomic<std::uint64_t> openings_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Engine>> engines_;
  AccessByUrl access_;
  std::deque<BreakerEvent> events_;
  std::uint64_t next_number_ = 1;
};

}  // namespace driftgate::route
