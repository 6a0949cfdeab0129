#pragma once

#include <string>
#include <vector>

#include "schema/verdict.hpp"
#include "stages/clauses/clause_test.hpp"

namespace driftgate::stages {

/// Sequences on each side of a comparison, at least.
inline constexpr std::uint64_t kLeastCompared = 10;

/// What comparing each slice with the rest of the corpus gave.
struct RestComparison {
  std::vector<schema::ClauseVerdict> verdicts;  ///< role discovered, limit_kind "ratio_to_rest"
  std::vector<std::string> notes;               ///< plain sentences for people
};

/// Compares every combination of attributes that `slices.discover` names, of at least kLeastCompared
/// sequences, with all other sequences, by each clause of `clauses` on a mean, a quantile or an outcome: does
/// the figure of its sequences (of its clusters, where the corpus has them) rank above that of the rest? All
/// data are used, Holm's procedure runs over all slices of all clauses that were looked at, and the test is
/// exact (statistics/rank_test.hpp), whatever the size of the slice.
///
/// Of a slice that drifts more than the rest the verdict is `violated` and soft: it is reported with the
/// ratio of the two means as its estimate, and `lower` is the ratio that holds with the report's confidence
/// for all findings together, for a slice whose figures are those of the rest times a factor. It has the
/// clause's own severity, and so blocks, where that ratio is over `slices.discover.max_ratio`. Slices that
/// overlap a worse one are named only if what is left of them still drifts more than what is left of the
/// rest. On a slice that a clause names as critical, whose verdict is in `decided`, the finding is a sentence
/// of that verdict. Without `slices.discover` nothing.
[[nodiscard]] RestComparison compare_with_rest(const ClauseData& data,
                                               const std::vector<const schema::Clause*>& clauses,
                                               std::vector<schema::ClauseVerdict>& decided);

}  // namespace driftgate::stages
