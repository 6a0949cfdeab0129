#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "stages/dependence/dyadic_sums.hpp"
#include "stages/dependence/unit_clock.hpp"

namespace driftgate::stages {

/// Whether the numbers of failures of an arm in units of time depend on each other, however large they are.
/// A unit's score is the place of its number in the distribution that it has at the failure rate so far
/// (Poisson, the middle of the step), less 1/2: a stall, however many requests it fails, is one high score,
/// and a rate that wanders shows. The record covers the present day of observed time and the day before.
class CountScores {
 public:
  static constexpr std::int64_t kUnitUs = 12'000'000;
  /// Failures after which the rate is known well enough to give scores.
  static constexpr double kLeastFailures = 30;
  /// Scores depend on each other where that shows by so many standard deviations.
  static constexpr double kAllowance = 3;

  /// Adds a request. Requests come in routing order.
  void observe(std::int64_t routed_us, bool failed);
  void begin_day();

  /// By which part the variance of sums of scores exceeds that of independent ones, beyond what windows of
  /// `block_us` have; 0 where no more than chance shows.
  [[nodiscard]] double inflation(std::int64_t block_us) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static CountScores from_json(const nlohmann::json& json);

 private:
  void end_unit();

  DyadicSums today_, before_;
  UnitClock clock_;
  double failures_ = 0, requests_ = 0;            ///< of the units that have ended
  double unit_failures_ = 0, unit_requests_ = 0;  ///< of the one that has not
};

}  // namespace driftgate::stages
