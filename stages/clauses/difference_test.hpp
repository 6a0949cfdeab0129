#pragma once

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// Whether the clause limits the difference of a figure of K_inf and the same figure of K_train: `max_delta`
/// on any metric, or any limit on ece_drift.
[[nodiscard]] bool is_difference(const schema::Clause& clause);

/// Decides such a clause on captures. `max_delta: d` demands −d ≤ inf − train ≤ d. It passes if both sides
/// are proven, each at level α (two one-sided tests; Schuirmann, J. Pharmacokinet. Biopharm. 1987), and is
/// violated if one side is shown to be exceeded at level α/2.
/// - entropy_inf: the differences of means lie in [−ln V, ln V], so that betting is exact.
/// - logprob_inf: the differences are unbounded; cluster bootstrap-t if the contract asks for the approximate
///   method, else inconclusive.
/// - ece_drift: difference of the debiased calibration errors by paired cluster bootstrap, approximate
///   (docs/design/statistics.md, "Calibration"). Its `max` limits only a worsening. Confidences are those of
///   the corpus if it states both, else those of the captures at the last position of the sequence.
///
/// The verdict is error for other metrics and where the data are missing.
[[nodiscard]] schema::ClauseVerdict decide_difference(const ClauseData& data, const schema::Clause& clause,
                                                      const Selection& selection,
                                                      schema::ClauseVerdict verdict);

}  // namespace driftgate::stages
