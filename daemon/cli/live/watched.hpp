#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/cli/live/line.hpp"
#include "daemon/net/sse.hpp"

namespace driftgate::cli::live {

/// A promotion that is followed: what its events and answers said so far, and the screen that shows it. Times
/// are this machine's, in microseconds since the epoch. One thread at a time.
class Watched {
 public:
  /// `promotion`: its view when the watching begins.
  Watched(nlohmann::json promotion, std::int64_t now_us);

  /// Takes an event of the promotion's stream. False when there is nothing to wait for: it ended, or nothing
  /// happens until people decide.
  bool take(const net::SseEvent& event, std::int64_t now_us);
  void take_series(nlohmann::json series) { series_ = std::move(series); }
  /// Something came, if only a sign of life.
  void heard(std::int64_t now_us);
  /// The connection broke.
  void lost(const std::string& why);

  [[nodiscard]] const nlohmann::json& promotion() const { return promotion_; }
  [[nodiscard]] std::vector<Line> lines(const Shape& shape, std::int64_t now_us) const;

 private:
  void take_promotion(nlohmann::json promotion, std::int64_t now_us);
  void note(std::string line);
  [[nodiscard]] std::string remaining(std::int64_t now_us) const;

  /// The running job when it was first seen: its rate gives how long it takes.
  struct Job {
    std::string stage, unit;
    std::int64_t total = 0, first_done = 0, first_us = 0, done = 0, newest_us = 0;
  };

  nlohmann::json promotion_, series_;
  std::deque<std::string> events_;
  std::int64_t last_message_us_;
  std::string lost_;
  Job job_;
};

}  // namespace driftgate::cli::live
