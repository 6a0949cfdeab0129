#pragma once

#include <cstdint>
#include <string>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/bounds/bounds.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::stages {

/// The data and the level on which the clauses of a fixed-data stage are decided. The pointers are not owned.
struct ClauseData {
  const schema::Contract* contract = nullptr;
  const gpu::MeasurementTable* table = nullptr;
  double alpha = 0.05;
  std::uint64_t seed = 0;
  Floors floors{};
};

/// Why the table's figures of this metric cannot be used under the contract: clip_budget_used measured at
/// another PPO clip, or topk_overlap at another k. Empty if they can.
[[nodiscard]] std::string parameter_fault(const ClauseData& data, schema::Metric metric);

/// Decides one clause on the sequences that match `where`, at level alpha in each direction, by the methods
/// of docs/design/statistics.md, "Fixed data". `p_value` is that of harm, for Holm's procedure. Slices with
/// fewer sequences than `min_sequences` are inconclusive, with the number that is missing; a row with
/// non-finite logits violates each clause on a metric or a bound over it, except those on ece_drift and
/// batch_variant_rate. Never fails: what cannot be decided is inconclusive or an error, with the reason in
/// the message.
[[nodiscard]] schema::ClauseVerdict decide_clause(const ClauseData& data, const schema::Clause& clause,
                                                  const schema::SliceWhere& where, schema::SliceRole role);

}  // namespace driftgate::stages
