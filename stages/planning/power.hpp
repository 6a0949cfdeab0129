#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/contract/spending.hpp"

namespace driftgate::stages {

/// How much data a clause needs in one stage if the true figure is half its limit: found by running the
/// stage's test on simulated data, at the level `alpha`, which the run spends. Where `n` is absent, `why_not`
/// gives the reason.
struct ClausePower {
  std::string clause;  ///< address
  schema::Stage stage{};
  std::optional<std::uint64_t> n;
  std::string unit;  ///< "sequences", "outcomes", "pairs", "prompts" or "sticky keys"; of each slice, if any
  double alpha = 0;
  std::string assumes;  ///< the distribution of the simulated data, in words
  std::string why_not;
};

/// One entry for each clause that needs a proof and each of its stages, at the levels that these runs spend.
/// The same seed gives the same result.
[[nodiscard]] std::vector<ClausePower> power_at_half(const schema::Contract& contract, std::uint64_t seed,
                                                     const schema::Runs& runs = schema::Runs());

/// How long a number of units takes at one share of traffic.
struct StepDuration {
  std::uint32_t share_bp = 0;
  double seconds = 0;
};
/// How long traffic of `requests_per_second`, each request with a sticky key of its own, takes to bring
/// `power.n` units: through the mirror in shadow-runtime, and at the share of each step in the canary. Empty
/// for stages that read captures.
[[nodiscard]] std::vector<StepDuration> durations(const ClausePower& power, const schema::Contract& contract,
                                                  double requests_per_second);

}  // namespace driftgate::stages
