#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "stages/statistics/betting_martingale.hpp"

namespace driftgate::stages {

/// The candidate's failure rate minus the incumbent's against `max_delta`, when each sticky key is seen by
/// one arm only: betting on X = y/π for a key that the candidate served and −y/(1 − π) for one of the
/// incumbent's, π the configured share when it was routed, whose conditional mean is the difference of the
/// rates (Horvitz & Thompson, JASA 1952). X is bounded by the shares and scaled to [0,1] for each key by its
/// own share. Exact under continuous looking when keys are assigned with the configured share. See
/// docs/design/statistics.md, "Differences of failure rates".
class RateDifferenceProcess {
 public:
  /// Where an arm has less than this share one failure would count for more than this process can bear.
  static constexpr double kLeastShare = 0.005, kLeastOtherShare = 0.05;

  RateDifferenceProcess(double max_delta, double alpha)
      : max_delta_(max_delta), proof_(alpha), harm_(alpha) {}

  /// The first request of a key. True when it was evaluable.
  bool update(bool candidate, bool failed, double share);
  [[nodiscard]] double e_proof() const { return proof_.e_value(); }
  [[nodiscard]] double e_harm() const { return harm_.e_value(); }
  [[nodiscard]] std::uint64_t keys() const { return proof_.count(); }
  [[nodiscard]] double estimate() const;  ///< mean of X; 0 before the first

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static RateDifferenceProcess from_json(const nlohmann::json& json, double max_delta, double alpha);

 private:
  double max_delta_;
  double sum_ = 0;
  BettingMartingale proof_, harm_;
};

}  // namespace driftgate::stages
