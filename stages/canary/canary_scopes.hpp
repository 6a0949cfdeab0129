#pragma once

#include <cstdint>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::stages {

/// The number of slices found in traffic that a canary tests for harm. Requests of further slices count in
/// the tests on all traffic only.
inline constexpr std::uint32_t kMaxWatchedSlices = 16;

/// The weight of a test on all traffic when α_harm is divided (CanaryLevels::whole_parts). A hard clause,
/// whose violation may end the canary, has kHardParts times the weight of a soft one.
inline constexpr std::uint32_t kHardParts = 4;
[[nodiscard]] constexpr std::uint32_t harm_parts(schema::Severity severity) {
  return severity == schema::Severity::hard ? kHardParts : 1;
}

/// A clause and the slice that it is tested on; the empty slice is all traffic.
struct CanaryScope {
  schema::Clause clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  /// On all traffic, for a clause that an escalation rule with route_slice matches: harm that such slices
  /// account for is left to the tests on them (docs/canary.md, "Slices").
  bool defers_to_slices = false;
};

/// Everything that a canary tests. It follows from the contract before any traffic, so that each test has a
/// fixed part of α_harm.
struct CanaryScopes {
  std::vector<CanaryScope> planned;
  std::vector<schema::Clause> found;    ///< clauses that are also tested on slices found in traffic
  std::vector<schema::Clause> signals;  ///< clauses on observability signals
  std::vector<std::string> dimensions;  ///< the dimensions whose values are looked for in traffic
  std::vector<schema::SliceWhere> critical;
  std::uint32_t whole_parts = 0, slice_tests = 0;  ///< see CanaryLevels (canary_streams.hpp)
};

/// The tests of a canary under this contract. A clause is tested on each critical slice if its `slices` name
/// these, else on all traffic. It is also tested for harm, without a need for proof, on
/// - each single value of a declared dimension that traffic shows, if its `slices` name monitored ones;
/// - the slice of each escalation rule that matches it and has a slice;
/// - the critical slices and the values found in traffic, if such a rule says `slice: any`.
///
/// Error: `unsupported` for a clause that a canary cannot evaluate.
[[nodiscard]] schema::Result<CanaryScopes> canary_scopes(const schema::Contract& contract);

/// All traffic, in basis points.
inline constexpr std::uint32_t kFullBp = 10'000;

/// The candidate's share of traffic in a step, in basis points: what the step states, less those users whom
/// `holdback` leaves on the incumbent. The last step's for any later one. Precondition: the plan has steps.
[[nodiscard]] std::uint32_t share_of_step(const schema::CanaryPlan& plan, std::uint32_t step);

}  // namespace driftgate::stages
