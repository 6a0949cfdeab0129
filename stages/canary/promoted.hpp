#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/contract/contract_blocks.hpp"
#include "stages/canary/key_periods.hpp"

namespace driftgate::stages {

/// The upper limits of what was promoted hold with this probability less than 1, each.
inline constexpr double kPromotedAlpha = 0.05;

/// What a canary saw of its candidate's failure rate: of one clause, on all traffic or on one slice, in the
/// unit of a guard (KeyPeriods).
struct PromotedRate {
  std::string clause;  ///< address
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  std::uint64_t keys = 0;                 ///< sticky keys
  std::uint64_t periods = 0, failed = 0;  ///< first requests of the keys' periods, and those that failed
  double upper = 1;                       ///< the upper limit of the rate, at 1 − kPromotedAlpha
};

/// The same for a clause on a quantile of a latency: the upper limit of the candidate's in ms, by stratum of
/// prompt length; infinite where too few answers were seen.
struct PromotedLatency {
  std::string clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  std::map<std::uint32_t, double> upper_ms;
};

/// What a guard holds live traffic against (stages/guard/guard.hpp).
struct Promoted {
  std::vector<PromotedRate> rates;
  std::vector<PromotedLatency> latencies;
  std::int64_t block_us = 1'000 * schema::kLeastBlockMs;  ///< length of a block of time
  /// The keys that the candidate served last, so that its guard does not begin with those that are there most
  /// often.
  std::vector<CountedKey> keys;
};

}  // namespace driftgate::stages
