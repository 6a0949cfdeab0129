#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// Harm of a candidate against the incumbent by an e-process on the labels of failures
/// (docs/design/statistics.md, "Single failures"). Each observation is the first failure of a sticky key: y =
/// 1 if the candidate served it, and π is the candidate's configured share when it was routed. H₀: the
/// candidate fails at most r₀ = max_ratio times as often as the incumbent. The e-value is the mean, over r_k
/// = r₀·16^{k/16} with k = 1 … 16, of the likelihood ratios of r_k against r₀, where f_r(1) = π·r/(π·r + 1 −
/// π). Exact under continuous monitoring (Ville's inequality) if failures are independent given their arm. It
/// shows harm only.
class LabelProcess {
 public:
  static constexpr std::size_t kAlternatives = 16;
  /// While the incumbent has less than this share, failures carry no information about the ratio, and a
  /// clause on the absolute rate must decide.
  static constexpr double kLeastOtherShare = 0.05;

  explicit LabelProcess(double max_ratio) : max_ratio_(max_ratio) {}

  /// Adds a failure. True if it was evaluable: 0 < share ≤ 1 − kLeastOtherShare. Its likelihood ratios
  /// count to the power `weight`, in (0, 1], which must not depend on y: less than 1 where failures are not
  /// independent given their arm, since the rate of an arm swings by itself.
  bool update(bool candidate, double share, double weight = 1);

  [[nodiscard]] double e_value() const;
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  [[nodiscard]] std::uint64_t candidate_failures() const { return candidate_failures_; }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static LabelProcess from_json(const nlohmann::json& json, double max_ratio);

 private:
  double max_ratio_;
  std::array<double, kAlternatives> log_wealth_{};
  std::uint64_t failures_ = 0, candidate_failures_ = 0;
};

}  // namespace driftgate::stages
