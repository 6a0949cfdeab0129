#pragma once

#include <string>
#include <vector>

#include "schema/verdict.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/slices/rest_test.hpp"

namespace driftgate::stages {

/// The result of comparing slices with the rest of the corpus.
struct RestComparison {
  std::vector<schema::ClauseVerdict> verdicts;  ///< of role discovered, with limit_kind "ratio_to_rest"
  std::vector<std::string> notes;               ///< sentences on what was compared
};

/// Compares each combination of attributes that `slices.discover` covers, with at least kLeastCompared
/// sequences, with all other sequences, for each clause of `clauses` on a mean, a quantile or an outcome: do
/// its sequences rank above the rest in the figure that the clause limits? Where the corpus states clusters,
/// clusters are ranked. Where many figures are zero, slices are also compared by the share of figures above
/// zero and by the ranks of those (rest_test.hpp). All sequences are used. The tests are valid at every size
/// of the slice. The p-value of a slice is its smallest times the number of its comparisons, and Holm's
/// procedure covers all slices of all clauses that were compared. Empty without `slices.discover`, and with a
/// note where kMaxSearchVisits (slice_search.hpp) would be exceeded.
///
/// A slice that drifts more than the rest gets the verdict `violated`, with the ratio of the two means as its
/// estimate. `lower` is the ratio that holds for all findings together at level 1 − α, if the figures of the
/// slice are those of the rest times a factor; a finding by the share of figures above zero may have none.
/// The verdict is soft, and so is reported only, unless the ratio is shown by ranks to exceed
/// `slices.discover.max_ratio`; then it has the severity of the clause. A slice that
/// overlaps one named before it is named only if what is left of it still drifts more than what is left of
/// the rest. For a slice that the clause decides as critical, the finding becomes a sentence of that verdict
/// in `decided`.
[[nodiscard]] RestComparison compare_with_rest(const ClauseData& data,
                                               const std::vector<const schema::Clause*>& clauses,
                                               std::vector<schema::ClauseVerdict>& decided);

}  // namespace driftgate::stages
