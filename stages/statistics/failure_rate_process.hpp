#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// The candidate's failure rate against `max`, one request of each sticky key, by betting (Waudby-Smith &
/// Ramdas, JRSS-B 2024): an equal mixture over bet caps ½ and 0.99, bets from past data only. `e_proof`
/// tests H0 "rate ≥ max" and grows while nothing fails, which is what lets a step advance; `e_harm` is
/// its mirror, H0 "rate ≤ max". Exact under continuous looking when every conditional rate respects H0. See
/// docs/design/statistics.md, "Absolute failure rate".
class FailureRateProcess {
 public:
  explicit FailureRateProcess(double max) : max_(max) {}

  void update(bool failed);

  [[nodiscard]] double e_proof() const;
  [[nodiscard]] double e_harm() const;
  [[nodiscard]] std::uint64_t keys() const { return keys_; }
  [[nodiscard]] std::uint64_t failures() const { return failures_; }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static FailureRateProcess from_json(const nlohmann::json& json, double max);

 private:
  double max_;
  std::array<double, 2> proof_{}, harm_{};  ///< log-wealth by cap
  bool impossible_ = false;                 ///< max = 0 and something failed
  std::uint64_t keys_ = 0, failures_ = 0;
};

/// Keys without any failure after which the mean of `starts` planned starts, of which one runs, reaches
/// 1/α: what a healthy candidate needs to advance from its first step.
[[nodiscard]] std::uint64_t keys_to_advance(double max, double alpha, std::uint32_t starts);

}  // namespace driftgate::stages
