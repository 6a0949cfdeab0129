#pragma once

#include <cstdint>
#include <string>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/bounds/bounds.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::stages {

/// What the clauses of one fixed-data stage are decided on.
struct ClauseData {
  const schema::Contract* contract = nullptr;
  const gpu::MeasurementTable* table = nullptr;
  double alpha = 0.05;
  std::uint64_t seed = 0;
  Floors floors{};
};

/// Why the table's figures of this metric are of no use under the contract: they depend on a parameter (PPO
/// clip, k) and were measured at another one. Empty when they are.
[[nodiscard]] std::string parameter_fault(const ClauseData& data, schema::Metric metric);

/// Decides one clause on the sequences that match `where`, at level alpha in each direction, by the method of
/// docs/design/statistics.md, "Fixed data". `p_value` is that of harm, for Holm. Critical and monitored
/// slices below `min_sequences` are inconclusive and say how many sequences are missing; a row that is not
/// finite makes a numerical clause over it violated.
[[nodiscard]] schema::ClauseVerdict decide_clause(const ClauseData& data, const schema::Clause& clause,
                                                  const schema::SliceWhere& where, schema::SliceRole role);

}  // namespace driftgate::stages
