#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// Do failures of one arm come together in time? H0: within some minutes every request fails independently
/// with one probability. Time is cut into groups of 16 bins of 1, 4 and 16 s each. Given that k of the n
/// requests of a group failed, how many did in each bin is multivariate hypergeometric under H0; the bet
/// against it is a Dirichlet-multinomial with the bins' shares of requests as means and a concentration of 1,
/// 4 or 16 (Mosimann, Biometrika 1962), in equal parts, at a stake of 30, 5 or 1%. Each (width, stake) is a
/// change detector: M ← max(M, 1)·L at the end of a group, which bets afresh after quiet time, however long
/// (Page, Biometrika 1954; Shin, Ramdas & Rinaldo, "E-detectors", 2022: at level A a false alarm comes after
/// A groups at the earliest in the mean). Given k, nothing is assumed about the rate, nor about how it moves
/// from group to group. The last group is looked at before it ends, so that a stall shows while it lasts. See
/// docs/design/statistics.md, "Dispersion of failures".
class DispersionProcess {
 public:
  static constexpr std::size_t kBins = 16;
  static constexpr std::array<std::int64_t, 3> kWidthsUs{1'000'000, 4'000'000, 16'000'000};
  static constexpr std::array<double, 3> kStakes{0.3, 0.05, 0.01};
  static constexpr std::array<double, 3> kConcentrations{1, 4, 16};

  /// Requests in routing order; one that was routed before the newest bin began counts in that bin.
  void observe(std::int64_t routed_us, bool failed);
  /// The mean of all detectors, the groups that have not ended included.
  [[nodiscard]] double e_value() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static DispersionProcess from_json(const nlohmann::json& json);

 private:
  struct Group {
    std::int64_t index = 0;
    std::size_t bin = 0;
    std::array<std::uint64_t, kBins> requests{}, failures{};
    std::array<double, kStakes.size()> log_wealth{};  ///< of the groups before, by stake; at least 0

    void end();
    [[nodiscard]] double log_likelihood_ratio() const;
  };
  std::array<Group, kWidthsUs.size()> groups_{};
  bool begun_ = false;
};

}  // namespace driftgate::stages
