#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/verdict.hpp"
#include "schema/verdict_rule.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/metric_test.hpp"

namespace driftgate::stages {

/// What the search of `slices.discover` gave.
struct Discovery {
  std::vector<schema::ClauseVerdict> verdicts;  ///< role discovered, in the order of the clauses
  std::vector<std::string> notes;               ///< plain sentences for people
};

/// What `slices.discover` says of verdicts on what was found; nothing where the contract has none.
[[nodiscard]] std::optional<schema::DiscoveryTerms> discovery_terms(const schema::Slices& slices);

/// What each sequence adds to the difference in an outcome: +1 where K_inf alone is right, −1 where K_train
/// alone is; their mean must stay over −margin.
[[nodiscard]] BoundedFigures outcome_figures(const gpu::MeasurementTable& table, double margin);

/// Searches one half of the clusters, drawn by the seed, for the slices furthest beyond the limit of each
/// clause that `schema::discovery_searches` names, and tests them on the other half. Harm is judged over all
/// clauses and slices together by e-BH on betting e-values (false discovery rate ≤ α for any dependence);
/// within the limit is shown by the same bets. A slice that is too small in a half says how many sequences
/// are missing. The verdicts are soft unless the contract says `action: block`, so that they are reported and
/// do not block. Without `slices.discover` nothing. `monitored` are the slices of that role.
[[nodiscard]] Discovery discover_slices(const ClauseData& data,
                                        const std::vector<const schema::Clause*>& clauses,
                                        const std::vector<schema::SliceWhere>& monitored);

}  // namespace driftgate::stages
