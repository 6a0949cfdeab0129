#pragma once

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// Is this a clause on the difference between a figure of K_inf and the same figure of K_train: `max_delta`,
/// or any limit of ece_drift?
[[nodiscard]] bool is_difference(const schema::Clause& clause);

/// Decides such a clause on captures. `max_delta: d` demands −d ≤ inf − train ≤ d: it passes when both sides
/// are proven, each at α (two one-sided tests; Schuirmann 1987), and is violated when one side is broken,
/// each at α/2. Of entropy_inf the paired differences of means lie within ± ln V: betting; of logprob_inf they are
/// unbounded: cluster bootstrap-t where the contract asks for the approximate method. `ece_drift`
/// compares debiased calibration errors by paired cluster bootstrap, approximate; its `max` limits a
/// worsening alone. Its confidences are the corpus's where it states both, else those of the captures at the
/// sequence's last position.
[[nodiscard]] schema::ClauseVerdict decide_difference(const ClauseData& data, const schema::Clause& clause,
                                                      const Selection& selection,
                                                      schema::ClauseVerdict verdict);

}  // namespace driftgate::stages
