#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// Detects failures of one arm that cluster in time (docs/design/statistics.md, "Dispersion of failures").
/// H₀: within each group of bins, every request fails independently with the same probability. Time is
/// divided into groups of 16 bins of 1, 4 and 16 s. Given that k of the n requests of a group failed, the
/// numbers of failures in the bins are multivariate hypergeometric under H₀. The alternative is an equal
/// mixture of three Dirichlet-multinomial distributions (Mosimann, Biometrika 1962), whose means are the
/// bins' shares of the requests and whose concentrations are 1, 4 and 16; the stake is 30, 5 or 1%. Nothing
/// is assumed about the failure rate or about how it changes from group to group.
///
/// Each pair of a width and a stake is a change detector: at the end of a group M ← max(M, 1)·L, where L is 1
/// + stake·(likelihood ratio − 1), so that quiet time before a change does not delay detection (Page,
/// Biometrika 1954; Shin, Ramdas & Rinaldo, "E-detectors", 2022: at a threshold of A, the mean number of
/// groups before a false alarm is at least A). The group that has not ended is included, so that a stall
/// shows while it lasts.
class DispersionProcess {
 public:
  static constexpr std::size_t kBins = 16;
  static constexpr std::array<std::int64_t, 3> kWidthsUs{1'000'000, 4'000'000, 16'000'000};
  static constexpr std::array<double, 3> kStakes{0.3, 0.05, 0.01};
  static constexpr std::array<double, 3> kConcentrations{1, 4, 16};

  /// Adds a request. Requests come in routing order; one that was routed before the newest bin began counts
  /// in that bin.
  void observe(std::int64_t routed_us, bool failed);
  /// The mean of the nine detectors, including the groups that have not ended.
  [[nodiscard]] double e_value() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static DispersionProcess from_json(const nlohmann::json& json);

 private:
  struct Group {
    std::int64_t index = 0;
    std::size_t bin = 0;
    std::array<std::uint64_t, kBins> requests{}, failures{};
    std::array<double, kStakes.size()> log_wealth{};  ///< ln M of the groups before, by stake; at least 0

    void end();
    [[nodiscard]] double log_likelihood_ratio() const;
  };
  std::array<Group, kWidthsUs.size()> groups_{};
  bool begun_ = false;
};

}  // namespace driftgate::stages
