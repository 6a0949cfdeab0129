#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "schema/contract/contract.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {

/// How many runs are simulated, and the share of them that must show what is asked for.
inline constexpr int kSimulatedRuns = 40;
inline constexpr double kPowerWanted = 0.8;
/// No run is simulated on more units.
inline constexpr std::uint64_t kMostSimulatedUnits = 100'000;
/// The number of rows of a simulated sequence, for quantile clauses.
inline constexpr std::uint32_t kPowerRows = 64;

/// What a test can show of a limit.
enum class Shown : std::uint8_t { kept, exceeded };

/// Data of a known truth that one clause is tested on, for clauses that are decided once, on captures or on
/// mirrored requests. The true figure is the one that the test is about, such as a mean as a share of its
/// range.
struct ClauseWorld {
  /// Whether the clause's test shows this on `n` simulated units with the true figure `truth`. Empty where
  /// nothing is simulated.
  std::function<bool(Shown shown, double truth, std::uint64_t n, Random& random)> proves;
  bool exact_pairs = false;      ///< it is decided by Clopper–Pearson limits of independent events
  double at_half = 0;            ///< the true figure that counts as half of the limit
  double at_limit = 0;           ///< a regression is a larger figure than this
  double most = 1;               ///< the largest figure that there is
  double offset = 0, scale = 1;  ///< offset + scale · truth is the figure in the clause's own unit
  bool is_share = false;         ///< the figure is told in percent
  std::string figure;            ///< what the figure is, such as "mean"
  std::string half;              ///< what half of the limit means where that needs saying, or ""
  std::string data;              ///< what else the simulated data are like, or ""
  // Without `proves`:
  std::string best_case;   ///< the least number of units proves the clause if this is so,
  std::string what_fails;  ///< and this is what violates it; or
  std::string why_not;     ///< why nothing can be said
};

/// The world of a clause that is decided once, at the level `alpha`; of clauses on traffic only a `max` on
/// error_rate has one. The same seed gives the same data.
[[nodiscard]] ClauseWorld clause_world(const schema::Clause& clause, const schema::Contract& contract,
                                       double alpha, std::uint64_t seed);

/// Whether at least kPowerWanted of the simulated runs are as wanted.
[[nodiscard]] bool often_enough(const std::function<bool(Random&)>& run, std::uint64_t seed);

}  // namespace driftgate::stages
