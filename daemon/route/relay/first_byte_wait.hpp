#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "daemon/route/health/engine.hpp"
#include "daemon/route/relay/deadlines.hpp"

namespace driftgate::route {

/// One request's wait for the first byte of an engine's answer, and what the engine's health learns from it.
/// The request counts as in flight at the engine while this lives. Until that byte nothing has gone to the
/// client, so that the request may be sent to another engine. One thread.
class FirstByteWait {
 public:
  using Time = Deadlines::Time;
  /// Of a trial, where no limit is known.
  static constexpr std::chrono::seconds kTrialLimit{5};

  /// The request is sent now. `instead`: the engine that it may be sent to instead, or null. `trial`: it is
  /// the one request that tries an engine whose breaker is half open. `timed`: false for a request that takes
  /// another time than completions do, so that the engine's learned limit is neither for it nor learned of
  /// it.
  FirstByteWait(std::shared_ptr<Engine> engine, bool streamed, std::shared_ptr<Engine> instead = nullptr,
                bool trial = false, bool timed = true);
  ~FirstByteWait();
  FirstByteWait(const FirstByteWait&) = delete;
  FirstByteWait& operator=(const FirstByteWait&) = delete;

  [[nodiscard]] Engine& engine() const { return *engine_; }
  /// When the first byte is late; Time::max() where no limit is known, and once it was late.
  [[nodiscard]] Time until() const { return until_; }
  [[nodiscard]] bool over() const { return over_; }
  /// Requests in flight at the engine when this one was sent, with it.
  [[nodiscard]] std::uint32_t in_flight() const { return in_flight_; }

  /// The first byte is late, which counts against the engine once. True when the request shall be sent to the
  /// other engine, false when there is none that answers, so that it goes on.
  bool late(Time now);
  [[nodiscard]] bool was_late() const { return late_; }
  /// The engine's breaker has opened meanwhile and the other engine is well: the request shall be sent there.
  [[nodiscard]] bool overtaken() const;

  /// What can be passed on has come: the first bytes of a stream, or all of another answer.
  void came(int status, Time now);
  /// Nothing will come. Reasons of Exchange.
  void failed(std::string_view why, Time now);

 private:
  [[nodiscard]] bool can_move() const;

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Engine> instead_;
  const bool streamed_;
  const bool trial_;
  const bool timed_;
  const Time sent_;
  Time until_;
  const std::uint32_t in_flight_;
  bool late_ = false;
  bool over_ = false;
};

}  // namespace driftgate::route
