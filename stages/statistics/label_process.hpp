#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// Harm of a candidate against the incumbent: an e-process on the labels of failures
/// (docs/design/statistics.md, "Single failures"). Each observation is the first failure of a sticky key, y =
/// 1 if the candidate served it, π the configured share when it was routed. H0: the candidate fails at most
/// r_0 times as often. An equal-weight mixture over r_k = r_0·16^{k/16}, k = 1…16, of likelihood ratios of
/// f_r(1) = π r/(π r + 1 − π). Exact under continuous looking (Ville). Harm only: never mirrored.
class LabelProcess {
 public:
  static constexpr std::size_t kAlternatives = 16;
  /// Where the other arm has less than this share, failures say nothing: the absolute clause decides.
  static constexpr double kLeastOtherShare = 0.05;

  explicit LabelProcess(double max_ratio) : max_ratio_(max_ratio) {}

  /// True when it was evaluable: 0 < π ≤ 0.95.
  bool update(bool candidate, double share);

  [[nodiscard]] double e_value() const;
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  [[nodiscard]] std::uint64_t candidate_failures() const { return candidate_failures_; }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static LabelProcess from_json(const nlohmann::json& json, double max_ratio);

 private:
  double max_ratio_;
  std::array<double, kAlternatives> log_wealth_{};
  std::uint64_t failures_ = 0, candidate_failures_ = 0;
};

}  // namespace driftgate::stages
