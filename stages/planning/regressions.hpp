#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/contract/spending.hpp"
#include "stages/planning/power.hpp"

namespace driftgate::stages {

/// In what a regression is told: in the unit of the clause, as a share, or as a multiple of the incumbent's
/// figure.
enum class RegressionUnit : std::uint8_t { own, share, times };

/// The smallest regression that the clause's test finds in kPowerWanted of the simulated runs at one
/// exposure.
struct FoundRegression {
  std::uint64_t exposure = 0;    ///< in units of SmallestRegression::unit
  std::optional<double> figure;  ///< the true figure; absent: not even the largest one is found
};

/// How small a regression one test of a clause finds.
struct SmallestRegression {
  std::string clause;  ///< address
  schema::Stage stage{};
  std::string limit;       ///< "max", "max_ratio", …: a clause may state two, which are tested apart
  double slice_share = 1;  ///< the share of the traffic that the slice has; 1: all of it, or any data
  std::string unit;        ///< of exposures: "sequences", "outcomes", "pairs", "prompts", "sticky keys"
  double alpha = 0;        ///< the level of the run, which the tests of the stage share
  RegressionUnit in = RegressionUnit::own;
  std::string figure;  ///< what the figure is, such as "mean"
  std::vector<FoundRegression> found;
  std::vector<std::string> assumes;  ///< what the simulated data are like, in words
  std::string always;                ///< what is found at any exposure, where nothing is simulated
  std::string why_not;               ///< why nothing can be said; then `found` is empty
};

/// The name of the limit that the clause states; max_ratio where it states a max too.
[[nodiscard]] std::string_view limit_name(const schema::Clause& clause);

/// One entry for each clause that is tested, each of its stages and limits, and, in a canary, for slices with
/// each of kSliceShares of the traffic where the clause is tested on slices. Exposures are the sizes that the
/// clause needs on fixed data (power_at_half) and four times these; in the canary, what the candidate has
/// served at the end of each step: `min_keys` for each, or more where `requests_per_second`, each with a key
/// of its own, bring more in `soak`. The same seed gives the same result.
/// `powers` is power_at_half of the same contract and runs.
[[nodiscard]] std::vector<SmallestRegression> smallest_regressions(const schema::Contract& contract,
                                                                   const std::vector<ClausePower>& powers,
                                                                   std::uint64_t seed,
                                                                   const schema::Runs& runs = schema::Runs(),
                                                                   double requests_per_second = 0);

/// The shares of traffic of the slices that the canary's tests on slices are simulated on.
inline constexpr double kSliceShares[] = {0.2, 0.05};

}  // namespace driftgate::stages
