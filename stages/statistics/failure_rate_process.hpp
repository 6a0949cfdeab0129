#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// The candidate's failure rate against `max`, with one request of each sticky key, by betting (Waudby-Smith
/// & Ramdas, JRSS-B 2024): an equal mixture over the bet caps ½ and 0.99 of the stake that could ruin, with
/// bets from past data alone (docs/design/statistics.md, "Absolute failure rate"). `e_proof` is against H₀
/// "rate ≥ max" and grows while nothing fails; it lets a step advance. `e_harm` is against H₀ "rate ≤ max".
/// Both are exact under continuous monitoring if every conditional rate respects H₀.
class FailureRateProcess {
 public:
  explicit FailureRateProcess(double max) : max_(max) {}

  void update(bool failed);

  [[nodiscard]] double e_proof() const;
  [[nodiscard]] double e_harm() const;
  [[nodiscard]] std::uint64_t keys() const { return keys_; }
  [[nodiscard]] std::uint64_t failures() const { return failures_; }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static FailureRateProcess from_json(const nlohmann::json& json, double max);

 private:
  double max_;
  std::array<double, 2> proof_{}, harm_{};  ///< log-wealth by cap
  bool impossible_ = false;                 ///< max = 0 and something failed
  std::uint64_t keys_ = 0, failures_ = 0;
};

/// The number of keys without any failure with which the mean over `starts` planned starts, of which one
/// runs, reaches 1/α: what a faultless candidate needs in order to leave the first step. At most 10,000,000;
/// the largest std::uint64_t for max ≤ 0.
[[nodiscard]] std::uint64_t keys_to_advance(double max, double alpha, std::uint32_t starts);

}  // namespace driftgate::stages
