#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "stages/dependence/dyadic_sums.hpp"
#include "stages/dependence/unit_clock.hpp"

namespace driftgate::stages {

/// How the mean of what one arm's requests show wanders, such as the share of them that fails: by how much
/// more its sums vary over minutes and hours than those of requests that are independent of each other
/// (docs/design/statistics.md, "Wandering rates"). Time is divided into units (UnitClock). Sums are held
/// against the number of requests, so that a cycle of the traffic is no wander. The record covers the present
/// day of observed time and the day before.
class Wander {
 public:
  static constexpr std::int64_t kUnitUs = 4'000'000;
  /// An arm with less than this share of all requests does not stand for all of them.
  static constexpr double kLeastShare = 0.05;

  /// Adds a request of an arm that has the share `share` of all requests. Requests come in routing order.
  /// What is counted stands for all requests, so that windows before and in a canary can be compared.
  void observe(std::int64_t routed_us, double value, double share);
  void begin_day();

  /// By which part the variance of sums over a window exceeds that of as many independent requests. It is of
  /// all requests together: where only a part of them is looked at, it is as much smaller as they are.
  struct Excess {
    double excess = 0;      ///< at least 0; of the windows where it is largest
    double window_s = 0;    ///< the length of these windows; 0 if excess is 0
    double deviations = 0;  ///< the largest excess in standard deviations of its estimate, of all windows
  };
  /// `allowance`: windows whose excess is less than so many standard deviations of its estimate do not count.
  [[nodiscard]] Excess excess(double allowance = 0) const;
  [[nodiscard]] double covered_s() const;  ///< in seconds, of the two days

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static Wander from_json(const nlohmann::json& json);

 private:
  /// The sums of a day, and Σ value², from which the variance of one request follows.
  struct Day {
    DyadicSums sums;
    double squares = 0;
  };
  void end_unit();

  Day today_, before_;
  UnitClock clock_;
  Portion unit_;
  double unit_squares_ = 0;
};

/// By which part the variance of the difference of two arms exceeds that of independent requests, where each
/// arm swings by itself and as much as the other: a share `q` of all requests is the candidate's, and
/// `excess` is that of all requests together, as the incumbent shows it.
[[nodiscard]] constexpr double excess_of_difference(double excess, double q) {
  return 2 * q * (1 - q) * excess;
}

}  // namespace driftgate::stages
