#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/verdict.hpp"
#include "schema/verdict_rule.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/metric_test.hpp"

namespace driftgate::stages {

/// The result of the search for slices (docs/design/statistics.md, "Many slices").
struct Discovery {
  std::vector<schema::ClauseVerdict> verdicts;  ///< of role discovered, in the order of the clauses
  std::vector<std::string> notes;               ///< sentences on what was searched
};

/// The settings of `slices.discover` on which severities depend; std::nullopt if the contract has none.
[[nodiscard]] std::optional<schema::DiscoveryTerms> discovery_terms(const schema::Slices& slices);

/// The difference in an outcome by sequence: +1 if only K_inf is right, −1 if only K_train is, else 0. Its
/// mean must stay above −margin.
[[nodiscard]] BoundedFigures outcome_figures(const gpu::MeasurementTable& table, double margin);

/// Searches one half of the clusters, drawn by the seed, for the slices that are furthest beyond the limit of
/// each clause that `schema::discovery_searches` accepts, and tests them on the other half. Harm is decided
/// over all clauses and slices together by e-BH on betting e-values, so that the false discovery rate is at
/// most α under any dependence; the same bets show that a slice keeps the limit. A slice that is too small to
/// be halved gets a verdict with the number of sequences that are missing. The verdicts are soft unless the
/// contract has `action: block`. `monitored`: the slices of that role, which a clause may decide already.
/// Empty without `slices.discover`; each clause gets an error if kMaxSearchVisits (slice_search.hpp) allows
/// no search.
[[nodiscard]] Discovery discover_slices(const ClauseData& data,
                                        const std::vector<const schema::Clause*>& clauses,
                                        const std::vector<schema::SliceWhere>& monitored);

}  // namespace driftgate::stages
