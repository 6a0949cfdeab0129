#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "stages/statistics/betting_martingale.hpp"

namespace driftgate::stages {

/// The candidate's failure rate minus the incumbent's against `max_delta`, where each sticky key is served by
/// one arm only (docs/design/statistics.md, "Differences of failure rates"). Betting on X = y/π for a key of
/// the candidate and X = −y/(1 − π) for one of the incumbent, with y = 1 for a failure and π the configured
/// share when the key was routed: the conditional mean of X is the difference of the rates (Horvitz &
/// Thompson, JASA 1952). X is scaled to [0, 1] for each key by its own share. `e_proof` is against
/// "difference ≥ max_delta", `e_harm` against "difference ≤ max_delta". Exact under continuous monitoring if
/// keys are assigned with the configured share.
class RateDifferenceProcess {
 public:
  /// The least shares of the candidate and of the incumbent. Below them a single failure would weigh too
  /// much, and the key is not counted.
  static constexpr double kLeastShare = 0.005, kLeastOtherShare = 0.05;

  RateDifferenceProcess(double max_delta, double alpha)
      : max_delta_(max_delta), proof_(alpha), harm_(alpha) {}

  /// Adds the first request of a key. True if it was evaluable.
  bool update(bool candidate, bool failed, double share);
  [[nodiscard]] double e_proof() const { return proof_.e_value(); }
  [[nodiscard]] double e_harm() const { return harm_.e_value(); }
  [[nodiscard]] std::uint64_t keys() const { return proof_.count(); }
  [[nodiscard]] double estimate() const;  ///< the mean of X; 0 without keys

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static RateDifferenceProcess from_json(const nlohmann::json& json, double max_delta, double alpha);

 private:
  double max_delta_;
  double sum_ = 0;
  BettingMartingale proof_, harm_;
};

}  // namespace driftgate::stages
