#pragma once

#include <cstdint>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::stages {

/// Slices found in traffic that one canary watches for harm, at most; further ones count in all traffic only.
inline constexpr std::uint32_t kMaxWatchedSlices = 16;

/// Parts of a test on all traffic: what ends a canary has more of the level than what only freezes it.
inline constexpr std::uint32_t kHardParts = 4;
[[nodiscard]] constexpr std::uint32_t harm_parts(schema::Severity severity) {
  return severity == schema::Severity::hard ? kHardParts : 1;
}

/// A clause and one slice that it is watched on; the empty slice is all traffic.
struct CanaryScope {
  schema::Clause clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  bool defers_to_slices =
      false;  ///< on all traffic, and slices that violate the clause are to be routed away
};

/// What a canary watches: fixed by the contract before any traffic, so that every test has its part of α.
struct CanaryScopes {
  std::vector<CanaryScope> planned;
  std::vector<schema::Clause> found;  ///< clauses that also watch each single value found in traffic
  std::vector<schema::Clause> signals;
  std::vector<std::string> dimensions;  ///< of slices to be found
  std::vector<schema::SliceWhere> critical;
  std::uint32_t whole_parts = 0, slice_tests = 0;  ///< as CanaryLevels has them
};

/// A clause is watched on all traffic, or on each critical slice when it names these; on slices found in
/// traffic (single values of declared dimensions) when it names monitored ones. A rule of Π with a slice
/// makes the clauses that it matches watch that slice too, and with `slice: any` the critical slices and
/// those found; on what only a rule or the role monitored asks for, harm is looked for and no proof is
/// wanted. Fails when a canary cannot evaluate a clause.
[[nodiscard]] schema::Result<CanaryScopes> canary_scopes(const schema::Contract& contract);

}  // namespace driftgate::stages
