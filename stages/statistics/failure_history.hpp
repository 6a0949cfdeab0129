#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <unordered_set>

#include "stages/statistics/dispersion_process.hpp"

namespace driftgate::stages {

/// What is remembered of one arm's failures: whether they come together in time, its longest stall, and over
/// how much time that was seen. Times are the router's clock of routing. Of each sticky key the first failure
/// counts, so that one user whose requests all fail is no stall. What is older than two days of traffic is
/// forgotten. See docs/design/statistics.md, "Dispersion of failures".
class FailureHistory {
 public:
  /// Where the e-value of dispersion reaches this, failures are dependent.
  static constexpr double kShown = 1'000;
  /// Of the time between two requests, at most this counts as seen.
  static constexpr std::int64_t kLongestGapUs = 60'000'000;
  static constexpr std::int64_t kDayUs = 86'400'000'000;
  static constexpr std::size_t kMaxFailedKeys = 20'000;  ///< remembered; further ones may count twice

  void observe(std::uint64_t key, bool keyless, bool failed, std::int64_t routed_us);

  /// The largest e-value of dispersion.
  [[nodiscard]] double dispersion() const;
  [[nodiscard]] bool dependent() const { return today_.dependent || before_.dependent; }
  /// A stall: from one failure to another, between which more requests failed than did not, of three keys at
  /// least. 0 when there was none.
  [[nodiscard]] double longest_stall_s() const;
  [[nodiscard]] double covered_s() const;
  [[nodiscard]] std::uint64_t requests() const { return today_.requests + before_.requests; }
  [[nodiscard]] std::uint64_t failures() const { return today_.failures + before_.failures; }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static FailureHistory from_json(const nlohmann::json& json);

 private:
  struct Day {
    std::int64_t covered_us = 0, longest_stall_us = 0;
    std::uint64_t requests = 0, failures = 0;
    bool dependent = false;
    double dispersion = 1;
  };
  /// A stall that may still go on: a walk that goes up with a failure and down with an answer.
  struct Run {
    std::int64_t start_us = 0, top_us = 0;
    std::int64_t height = 0, top = 0;
    std::uint64_t keys = 0;
  };
  void follow_stall(bool failed, bool first_of_key, std::int64_t routed_us);

  DispersionProcess process_;
  Day today_, before_;
  Run run_;
  std::int64_t newest_us_ = 0;
  std::unordered_set<std::uint64_t> failed_keys_;
};

}  // namespace driftgate::stages
