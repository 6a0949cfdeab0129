#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <unordered_set>

#include "stages/dependence/count_scores.hpp"
#include "stages/dependence/dispersion_process.hpp"
#include "stages/dependence/wander.hpp"

namespace driftgate::stages {

/// The record of one arm's failures: whether they cluster in time, how their rate wanders, the longest stall,
/// and for how long the arm was observed (docs/design/statistics.md, "Dispersion of failures"). Times are the
/// router's times of routing. Only the first failure of a sticky key counts, so that one user whose requests
/// all fail is not a stall. The record covers the present day of observed time and the day before; what is
/// older is forgotten. The keys that failed are forgotten at the end of each day, so that a key counts at
/// most once a day.
class FailureHistory {
 public:
  /// Failures are dependent once the e-value of dispersion has reached this.
  static constexpr double kShown = 1'000;
  /// The most that the time between two requests adds to the time of observation, in µs.
  static constexpr std::int64_t kLongestGapUs = UnitClock::kLongestGapUs;
  static constexpr std::int64_t kDayUs = 86'400'000'000;
  static constexpr std::size_t kMaxFailedKeys = 20'000;  ///< keys that are remembered; others may count again

  /// Adds a request of an arm that has the share `share` of all requests, in [0, 1]. Requests come in routing
  /// order.
  void observe(std::uint64_t key, bool keyless, bool failed, std::int64_t routed_us, double share = 1);

  /// The largest e-value of dispersion.
  [[nodiscard]] double dispersion() const;
  [[nodiscard]] bool dependent() const { return today_.dependent || before_.dependent; }
  /// The longest stall in seconds; 0 without any. A stall is the time from one failure to another between
  /// which more requests failed than succeeded, with first failures of at least three keys.
  [[nodiscard]] double longest_stall_s() const;
  [[nodiscard]] double covered_s() const;  ///< the time of observation in seconds
  [[nodiscard]] const Wander& wander() const { return wander_; }
  [[nodiscard]] const CountScores& scores() const { return scores_; }
  [[nodiscard]] std::uint64_t requests() const { return today_.requests + before_.requests; }
  [[nodiscard]] std::uint64_t failures() const { return today_.failures + before_.failures; }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static FailureHistory from_json(const nlohmann::json& json);

 private:
  struct Day {
    std::int64_t covered_us = 0, longest_stall_us = 0;
    std::uint64_t requests = 0, failures = 0;
    bool dependent = false;
    double dispersion = 1;
  };
  /// A stall that may be going on. `height` is the number of failures less that of answers since its start,
  /// `top` the largest height so far, at `top_us`.
  struct Run {
    std::int64_t start_us = 0, top_us = 0;
    std::int64_t height = 0, top = 0;
    std::uint64_t keys = 0;
  };
  void follow_stall(bool failed, bool first_of_key, std::int64_t routed_us);

  DispersionProcess process_;
  Wander wander_;
  CountScores scores_;
  Day today_, before_;
  Run run_;
  std::int64_t newest_us_ = 0;
  std::unordered_set<std::uint64_t> failed_keys_;
};

}  // namespace driftgate::stages
