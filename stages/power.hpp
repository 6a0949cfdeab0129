#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::stages {

/// The share of runs that a stated number of units is to pass.
inline constexpr double kPowerWanted = 0.8;
/// Rows of a sequence that the simulated quantile clauses assume.
inline constexpr std::uint32_t kPowerRows = 64;

/// How much data one clause takes in one stage when the truth is at half its limit, found by running the
/// stage's own test on simulated data at the α that the first run spends. `n` is absent when `why_not` says
/// why there is no such number.
struct ClausePower {
  std::string clause;
  schema::Stage stage{};
  std::optional<std::uint64_t> n;
  std::string unit;  ///< "sequences", "outcomes", "pairs", "sticky keys"; of each slice where there are some
  double alpha = 0;
  std::string assumes;  ///< what the simulated data look like
  std::string why_not;
};

/// For each clause and stage that needs a proof. Deterministic for a seed.
[[nodiscard]] std::vector<ClausePower> power_at_half(const schema::Contract& contract, std::uint64_t seed);

/// How long traffic of `requests_per_second` takes to bring `power.n` units, each request with a key of its
/// own: through the mirror in shadow-runtime, at the share of each step in canary (the first step is the
/// slowest). Nothing for captures.
struct StepDuration {
  std::uint32_t share_bp = 0;
  double seconds = 0;
};
[[nodiscard]] std::vector<StepDuration> durations(const ClausePower& power, const schema::Contract& contract,
                                                  double requests_per_second);

}  // namespace driftgate::stages
